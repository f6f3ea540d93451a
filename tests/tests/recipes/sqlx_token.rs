//! The token of a lock, checked by a database.

use quorumlock::{FencingToken, Locker};
use sqlx::SqlitePool; // or `PgPool`: the statements are the same

pub const SCHEMA: &str = "CREATE TABLE account (
    id      TEXT PRIMARY KEY,
    balance BIGINT NOT NULL,
    fence   BIGINT NOT NULL DEFAULT 0 -- the largest token seen
)";

pub async fn deposit(
    locker: &Locker,
    pool: &SqlitePool,
    id: &str,
    amount: i64,
) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let guard = locker.lock(format!("account/{id}")).await?;
    let added = add(pool, id, amount, guard.token()).await?;
    guard.unlock().await?;
    Ok(added)
}

/// Claims, reads, and writes in one transaction. False: the row is missing, or a later holder has
/// claimed it; nothing is written, and this holder stops.
pub async fn add(
    pool: &SqlitePool,
    id: &str,
    amount: i64,
    token: FencingToken,
) -> Result<bool, sqlx::Error> {
    let token = i64::from(token);
    let mut transaction = pool.begin().await?;
    let claim = "UPDATE account SET fence = $1 WHERE id = $2 AND fence <= $1";
    let claimed = sqlx::query(claim).bind(token).bind(id).execute(&mut *transaction).await?;
    if claimed.rows_affected() == 0 {
        return Ok(false); // the dropped transaction is rolled back
    }
    let read = "SELECT balance FROM account WHERE id = $1";
    let (balance,): (i64,) = sqlx::query_as(read).bind(id).fetch_one(&mut *transaction).await?;
    let write = "UPDATE account SET balance = $1 WHERE id = $2";
    sqlx::query(write).bind(balance + amount).bind(id).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(true)
}
