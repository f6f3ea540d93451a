//! Runs the SQL of docs/FENCING.md, taken from the page itself, on a real database.

use std::path::PathBuf;

use quorumlock::FencingToken;
use quorumlock::fencing::Stale;
use quorumlock_tests::MAX_WAIT;
use rusqlite::{Row, Transaction};
use tempfile::TempDir;

use crate::page;

const ID: &str = "account/7";

/// The three statements of a claim: insert the row, claim it, read it.
fn claim() -> [&'static str; 3] {
    statements(1)
}

/// The statements of a block of the page.
fn statements<const COUNT: usize>(block: usize) -> [&'static str; COUNT] {
    let statements = page::block("sql", block).trim().trim_end_matches(';').split(';');
    statements.collect::<Vec<_>>().try_into().expect("as many statements")
}

pub(crate) fn write() -> &'static str {
    page::block("sql", 2)
}

/// A database in a file, for several connections.
pub(crate) struct Database {
    file: PathBuf,
    _dir: TempDir,
}

impl Database {
    pub(crate) fn empty() -> Self {
        Self::of(page::block("sql", 0))
    }

    fn of(schema: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let database = Self { file: dir.path().join("accounts"), _dir: dir };
        database.connect().0.execute(schema, []).expect("the schema");
        database
    }

    pub(crate) fn with(balance: i64) -> Self {
        let database = Self::empty();
        let row = "INSERT INTO account (id, balance) VALUES (?1, ?2)";
        database.connect().0.execute(row, (ID, balance)).expect("a row");
        database
    }

    pub(crate) fn connect(&self) -> Connection {
        let connection = rusqlite::Connection::open(&self.file).expect("a database");
        connection.busy_timeout(MAX_WAIT).expect("set");
        // No power loss is tested here; waiting for the disk would only make the tests slow.
        connection.pragma_update(None, "synchronous", "off").expect("set");
        Connection(connection)
    }
}

/// The connection of one holder: each call is one transaction.
pub(crate) struct Connection(rusqlite::Connection);

impl Connection {
    pub(crate) fn claim(&mut self, token: FencingToken) -> Result<i64, Stale> {
        let transaction = self.0.transaction().expect("begun");
        let [row, claim, read] = claim();
        change(&transaction, row, token, 0);
        if change(&transaction, claim, token, 0) == 0 {
            return Err(stale(&transaction, token)); // rolls back
        }
        let balance = transaction.query_row(read, &[(":id", ID)], |row| row.get(0)).expect("a row");
        transaction.commit().expect("committed");
        Ok(balance)
    }

    pub(crate) fn write(
        &mut self,
        write: &str,
        token: FencingToken,
        new: i64,
    ) -> Result<(), Stale> {
        let transaction = self.0.transaction().expect("begun");
        if change(&transaction, write, token, new) == 0 {
            return Err(stale(&transaction, token)); // rolls back
        }
        transaction.commit().expect("committed");
        Ok(())
    }

    pub(crate) fn peek(&self) -> i64 {
        let read = "SELECT balance FROM account WHERE id = ?1";
        self.0.query_row(read, [ID], |row| row.get(0)).expect("a row")
    }
}

/// Executes a statement with those of `:id`, `:token` and `:balance` that it names. Returns the
/// number of rows that it changed.
fn change(
    transaction: &Transaction<'_>,
    statement: &str,
    token: FencingToken,
    balance: i64,
) -> usize {
    let mut statement = transaction.prepare(statement).expect("good SQL");
    let id = rusqlite::types::Value::from(ID.to_owned());
    for (name, value) in
        [(":id", id), (":token", number(token).into()), (":balance", balance.into())]
    {
        if let Some(at) = statement.parameter_index(name).expect("no zero byte") {
            statement.raw_bind_parameter(at, value).expect("bound");
        }
    }
    statement.raw_execute().expect("run")
}

fn stale(transaction: &Transaction<'_>, given: FencingToken) -> Stale {
    let fence = |row: &Row<'_>| row.get::<_, i64>(0);
    let seen = transaction.query_row("SELECT fence FROM account WHERE id = ?1", [ID], fence);
    let seen = seen.expect("a row").try_into().expect("a token");
    Stale::new(FencingToken::new(seen), given)
}

fn number(token: FencingToken) -> i64 {
    token.get().try_into().expect("microseconds since 1970 fit into 63 bits")
}

#[test]
fn a_claim_of_a_missing_row_makes_it() {
    let database = Database::empty();
    let (mut slow, mut quick) = (database.connect(), database.connect());
    assert_eq!(quick.claim(FencingToken::new(34)), Ok(0));
    let stale = Stale::new(FencingToken::new(34), FencingToken::new(33));
    assert_eq!(slow.claim(FencingToken::new(33)), Err(stale), "although it had seen no row");
    assert_eq!(quick.claim(FencingToken::new(34)), Ok(0), "the same holder again");
}

#[test]
fn a_write_without_a_claim_is_refused() {
    let database = Database::with(100);
    let mut holder = database.connect();
    let unclaimed = Stale::new(FencingToken::NONE, FencingToken::new(34));
    assert_eq!(holder.write(write(), FencingToken::new(34), 150), Err(unclaimed));
    assert_eq!(holder.claim(FencingToken::new(34)), Ok(100));
    assert_eq!(holder.write(write(), FencingToken::new(34), 150), Ok(()));
    assert_eq!(holder.peek(), 150);
}

#[test]
fn a_refused_claim_and_an_unfinished_one_change_nothing() {
    let database = Database::with(100);
    let (mut one, mut other) = (database.connect(), database.connect());
    assert_eq!(one.claim(FencingToken::new(34)), Ok(100));
    assert!(other.claim(FencingToken::new(33)).is_err());
    assert_eq!(one.write(write(), FencingToken::new(34), 150), Ok(()));

    let unfinished = other.0.transaction().expect("begun");
    assert_eq!(change(&unfinished, claim()[1], FencingToken::new(35), 0), 1);
    drop(unfinished); // rolls back
    assert_eq!(one.write(write(), FencingToken::new(34), 151), Ok(()), "35 has not claimed");
}

/// Of two columns: readers and writers.
#[test]
fn a_reader_is_safe_from_the_writer_before_it_and_refuses_no_other_reader() {
    let database = Database::of(page::block("sql", 3));
    let mut connection = database.connect().0;
    let row = "INSERT INTO account (id, balance) VALUES (?1, 100)";
    connection.execute(row, [ID]).expect("a row");
    let ([reads, select], [claims, writes]) = (statements(4), statements(5));
    let mut run = |statement: &str, token, balance| {
        let transaction = connection.transaction().expect("begun");
        let changed = change(&transaction, statement, FencingToken::new(token), balance) == 1;
        let balance = transaction.query_row(select, &[(":id", ID)], |row| row.get::<_, i64>(0));
        transaction.commit().expect("committed");
        (changed, balance.expect("a row"))
    };
    assert_eq!(run(claims, 1, 0), (true, 100));
    assert_eq!(run(reads, 3, 0), (true, 100));
    assert_eq!(run(reads, 2, 0), (true, 100), "it overlaps with 3");
    assert_eq!(run(writes, 1, 101), (false, 100), "3 has read what was there");
    assert_eq!(run(claims, 2, 0), (false, 100), "3 has been seen");
    assert_eq!(run(claims, 4, 0), (true, 100));
    assert_eq!(run(reads, 3, 0), (false, 100), "4 may write at any time");
    assert_eq!(run(writes, 4, 150), (true, 150));
    assert_eq!(run(reads, 5, 0), (true, 150));
}
