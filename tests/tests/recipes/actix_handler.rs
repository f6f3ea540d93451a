//! An actix-web handler that works under a lock.

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use actix_web::dev::Server;
use actix_web::{App, HttpResponse, HttpServer, web};
use quorumlock::Locker;

async fn pay(locker: web::Data<Locker>, id: web::Path<String>) -> HttpResponse {
    let lock = locker.lock(format!("invoice/{id}")).wait(Duration::from_secs(2));
    match lock.run(|lock| async move { format!("paid with token {}", lock.token()) }).await {
        Ok(paid) => HttpResponse::Ok().body(paid),
        Err(error) if error.is_busy() => HttpResponse::Conflict().body(error.to_string()),
        Err(error) if error.is_retryable() => {
            HttpResponse::ServiceUnavailable().body(error.to_string())
        }
        Err(error) => HttpResponse::InternalServerError().body(error.to_string()),
    }
}

/// One locker for all workers. After the server has ended: `locker.close().await`.
pub fn server(listener: TcpListener, locker: Locker) -> io::Result<Server> {
    let app = move || {
        let locker = web::Data::new(locker.clone());
        App::new().app_data(locker).route("/invoices/{id}/pay", web::post().to(pay))
    };
    Ok(HttpServer::new(app).listen(listener)?.run())
}
