//! Each recipe runs, on a server in memory.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::time::Duration;

use quorumlock::testing::MemoryServer;
use quorumlock::{Builder, FencingToken, Locker, Servers};
use quorumlock_tests::within;
use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tonic::{Code, Request};

use crate::lost_lock::Steps;
use crate::tonic_service::Invoices;
use crate::{actix_handler, axum_handler, lost_lock, sqlx_token, tonic_service};

fn locker(server: &MemoryServer) -> Locker {
    Locker::new(Servers::memory(server)).expect("a thread")
}

/// The status and the body of the answer to a payment.
async fn pay(at: SocketAddr) -> (u16, String) {
    let mut stream = TcpStream::connect(at).await.expect("a server");
    let request = "POST /invoices/7/pay HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    within("an answer", stream.read_to_string(&mut answer)).await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    let status = head.split(' ').nth(1).expect("a status");
    (status.parse().expect("a number"), body.to_owned())
}

#[tokio::test]
async fn the_axum_handler_answers_and_the_server_stops() {
    let server = MemoryServer::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let at = listener.local_addr().expect("bound");
    let (stop, stopped) = oneshot::channel();
    let stopped = async move { stopped.await.unwrap_or_default() };
    let serving = tokio::spawn(axum_handler::serve(listener, locker(&server), stopped));

    let paid = pay(at).await;
    assert!(paid.0 == 200 && paid.1.starts_with("paid with token "), "{paid:?}");
    let guard = locker(&server).lock("invoice/7").await.expect("free");
    assert_eq!(pay(at).await.0, 409);
    drop(guard);
    stop.send(()).expect("it runs");
    within("the end", serving).await.expect("no panic").expect("served");
}

#[test]
fn the_actix_handler_answers_on_its_workers() {
    let server = MemoryServer::new();
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let at = listener.local_addr().expect("bound");
    actix_web::rt::System::new().block_on(async {
        let serving = actix_handler::server(listener, locker(&server)).expect("a server");
        let handle = serving.handle();
        let serving = actix_web::rt::spawn(serving);
        let mut tokens = Vec::new();
        for _ in 0..4 {
            let (status, body) = pay(at).await;
            assert_eq!(status, 200, "{body}");
            tokens.push(body);
        }
        tokens.dedup();
        assert_eq!(tokens.len(), 4, "a token each");
        let guard = locker(&server).lock("invoice/7").await.expect("free");
        assert_eq!(pay(at).await.0, 409);
        drop(guard);
        handle.stop(true).await;
        within("the end", serving).await.expect("no panic").expect("served");
    });
}

#[tokio::test]
async fn the_tonic_method_answers_and_its_token_arrives() {
    let server = MemoryServer::new();
    let service = Invoices { locker: locker(&server) };
    let paid = service.pay(Request::new("7".into())).await.expect("free").into_inner();
    assert!(paid.starts_with("paid with token "), "{paid}");
    let guard = locker(&server).lock("invoice/7").await.expect("free");
    let busy = service.pay(Request::new("7".into())).await.expect_err("held");
    assert_eq!(busy.code(), Code::Aborted);

    let request = tonic_service::fenced("pay", guard.token());
    assert_eq!(tonic_service::token(&request).expect("a token"), guard.token());
    let without = tonic_service::token(&Request::new("pay")).expect_err("no token");
    assert_eq!(without.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn the_database_refuses_the_token_of_a_stale_holder() {
    let server = MemoryServer::new();
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:");
    let pool: SqlitePool = pool.await.expect("a database");
    sqlx::query(sqlx_token::SCHEMA).execute(&pool).await.expect("a table");
    let row = "INSERT INTO account (id, balance) VALUES ('7', 100)";
    sqlx::query(row).execute(&pool).await.expect("a row");

    let stale = locker(&server).lock("account/7").await.expect("free").token();
    server.forget_locks();
    assert!(sqlx_token::deposit(&locker(&server), &pool, "7", 50).await.expect("an answer"));
    assert!(!sqlx_token::add(&pool, "7", 1, stale).await.expect("an answer"));
    assert!(!sqlx_token::add(&pool, "8", 1, stale).await.expect("no such row"));
    let later = FencingToken::new(stale.get() + 1_000_000);
    assert!(sqlx_token::add(&pool, "7", 1, later).await.expect("an answer"));
    let read = sqlx::query_scalar("SELECT balance FROM account").fetch_one(&pool);
    let balance: i64 = read.await.expect("a row");
    assert_eq!(balance, 151);
}

/// Three steps; the lock is lost within the second one.
struct Interrupted {
    server: MemoryServer,
    /// The step and the token of each that was begun.
    begun: Mutex<Vec<(u32, u64)>>,
    done: Mutex<u32>,
}

impl Steps for Interrupted {
    async fn next(&self) -> Option<u32> {
        Some(*self.done.lock().expect("no panic")).filter(|step| *step < 3)
    }

    async fn take(&self, step: u32, token: u64) {
        let first = {
            let mut begun = self.begun.lock().expect("no panic");
            begun.push((step, token));
            begun.len() == 2
        };
        if first {
            self.server.forget_locks();
            std::future::pending::<()>().await;
        }
        *self.done.lock().expect("no panic") = step + 1;
    }
}

#[tokio::test]
async fn work_goes_on_under_the_next_lock() {
    let server = MemoryServer::new();
    let lease = Duration::from_millis(300);
    let locker =
        Builder::without_servers().lease(lease).on(Servers::memory(&server)).expect("a thread");
    let steps = Interrupted { server, begun: Mutex::default(), done: Mutex::new(0) };
    within("all steps", lost_lock::import(&locker, &steps)).await.expect("done");
    let begun = steps.begun.into_inner().expect("no panic");
    let order: Vec<_> = begun.iter().map(|(step, _)| *step).collect();
    assert_eq!(order, [0, 1, 1, 2]);
    assert!(begun[1].1 == begun[0].1 && begun[2].1 > begun[1].1, "{begun:?}");
}
