//! The recipes of docs/RECIPES.md: each is compiled, and runs.

#![allow(unreachable_pub, reason = "a recipe shows what a program would make public")]

mod actix_handler;
mod axum_handler;
mod lost_lock;
mod page;
mod runs;
mod sqlx_token;
mod tokio_test;
mod tonic_service;
