//! One balance, kept in three kinds of resource. Each value is one holder's access to it.

use std::future::Future;

use quorumlock::FencingToken;
use quorumlock::fencing::{Claimed, FENCED_GET, FENCED_SET, FenceGate, Stale};
use quorumlock_tests::Plain;

use crate::sql::{self, Connection, Database};

/// A balance that checks tokens.
pub(crate) trait Account {
    /// Claims, then reads.
    fn claim(&mut self, token: FencingToken) -> impl Future<Output = Result<i64, Stale>> + Send;

    /// Writes, if no larger token has claimed the balance since.
    fn write(
        &mut self,
        token: FencingToken,
        new: i64,
    ) -> impl Future<Output = Result<(), Stale>> + Send;
}

/// The wrong protocol: every write is checked, but reading needs no claim.
pub(crate) trait Unclaimed {
    /// Reads without a claim.
    async fn peek(&mut self) -> i64;

    /// Writes, if no larger token was seen.
    async fn write_checked(&mut self, token: FencingToken, balance: i64) -> Result<(), Stale>;
}

/// A balance behind a `FenceGate` in this process.
pub(crate) struct Gate<'gate> {
    gate: &'gate FenceGate<i64>,
    claimed: Option<Claimed<'gate, i64>>,
}

impl<'gate> Gate<'gate> {
    pub(crate) fn of(gate: &'gate FenceGate<i64>) -> Self {
        Self { gate, claimed: None }
    }
}

impl Account for Gate<'_> {
    async fn claim(&mut self, token: FencingToken) -> Result<i64, Stale> {
        self.claimed.insert(self.gate.claim(token)?).with(|balance| *balance)
    }

    async fn write(&mut self, token: FencingToken, new: i64) -> Result<(), Stale> {
        let claimed = self.claimed.as_ref().expect("nothing can be written without a claim");
        assert_eq!(claimed.token(), token);
        claimed.with(|balance| *balance = new)
    }
}

/// A balance in a Redis string.
#[derive(Clone)]
pub(crate) struct InRedis(Plain);

impl InRedis {
    pub(crate) const KEY: &str = "{account/7}";
    pub(crate) const FENCE: &str = "{account/7}:fence";

    pub(crate) async fn with(node: &Plain, balance: i64) -> Self {
        node.ask::<()>(&["SET", Self::KEY, &balance.to_string()]).await;
        Self(node.clone())
    }

    async fn call(&self, script: &str, token: FencingToken, more: &[&str]) -> Result<i64, Stale> {
        let given = token.to_string();
        let call = [&["EVAL", script, "2", Self::KEY, Self::FENCE, &given], more].concat();
        match self.0.ask::<(i64, i64)>(&call).await {
            (1, answer) => Ok(answer),
            (_, seen) => {
                Err(Stale::new(FencingToken::new(seen.try_into().expect("a token")), token))
            }
        }
    }
}

impl Account for InRedis {
    async fn claim(&mut self, token: FencingToken) -> Result<i64, Stale> {
        self.call(FENCED_GET, token, &[]).await
    }

    async fn write(&mut self, token: FencingToken, new: i64) -> Result<(), Stale> {
        self.call(FENCED_SET, token, &[&new.to_string()]).await.map(drop)
    }
}

impl Unclaimed for InRedis {
    async fn peek(&mut self) -> i64 {
        self.0.ask(&["GET", Self::KEY]).await
    }

    async fn write_checked(&mut self, token: FencingToken, new: i64) -> Result<(), Stale> {
        self.write(token, new).await
    }
}

/// A balance in a database row, with a connection per holder, as in separate processes.
pub(crate) struct InSql(Connection);

impl InSql {
    pub(crate) fn to(database: &Database) -> Self {
        Self(database.connect())
    }
}

impl Account for InSql {
    async fn claim(&mut self, token: FencingToken) -> Result<i64, Stale> {
        self.0.claim(token)
    }

    async fn write(&mut self, token: FencingToken, new: i64) -> Result<(), Stale> {
        self.0.write(sql::write(), token, new)
    }
}

impl Unclaimed for InSql {
    async fn peek(&mut self) -> i64 {
        self.0.peek()
    }

    async fn write_checked(&mut self, token: FencingToken, new: i64) -> Result<(), Stale> {
        let checked = "UPDATE account SET balance = :balance, fence = :token
                       WHERE id = :id AND fence <= :token";
        self.0.write(checked, token, new)
    }
}
