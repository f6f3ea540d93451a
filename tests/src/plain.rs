use std::fmt;
use std::pin::Pin;

use futures::{Stream, StreamExt as _};
use quorumlock_protocol::Name;
use redis::{AsyncConnectionConfig, FromRedisValue, Msg, RedisResult};

use crate::patience::{MAX_WAIT, within};

/// A client of one node that knows nothing of locks. Tests use it to inspect the node and to act as
/// a foreign program.
#[derive(Clone)]
pub struct Plain {
    url: String,
    connection: redis::aio::MultiplexedConnection,
}

impl Plain {
    /// Connects to the node.
    ///
    /// # Panics
    /// If the node cannot be reached.
    pub async fn to(url: &str) -> Self {
        let client = redis::Client::open(url).expect("a good URL");
        let patient = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(MAX_WAIT))
            .set_response_timeout(Some(MAX_WAIT));
        let connection = client.get_multiplexed_async_connection_with_config(&patient).await;
        Self { url: url.to_owned(), connection: connection.expect("the node answers") }
    }

    /// Sends one command. An error reply is an error.
    ///
    /// # Errors
    /// The error that the node returned, or that it did not answer.
    pub async fn send<T: FromRedisValue>(&self, command: &[&str]) -> RedisResult<T> {
        let (verb, arguments) = command.split_first().expect("a command");
        let mut connection = self.connection.clone();
        redis::cmd(verb).arg(arguments).query_async(&mut connection).await
    }

    /// Sends one command.
    ///
    /// # Panics
    /// If the answer is an error, or is not a `T`.
    pub async fn ask<T: FromRedisValue>(&self, command: &[&str]) -> T {
        match self.send(command).await {
            Ok(answer) => answer,
            Err(error) => panic!("{command:?}: {error}"),
        }
    }

    /// Whether a key exists.
    pub async fn exists(&self, key: &str) -> bool {
        self.ask(&["EXISTS", key]).await
    }

    /// Remaining milliseconds; -1 without expiry, -2 without key.
    pub async fn pttl(&self, key: &str) -> i64 {
        self.ask(&["PTTL", key]).await
    }

    /// Whether the node has the key at this moment. It blocks the thread: where a runtime has one thread, no
    /// task runs meanwhile.
    ///
    /// # Panics
    /// If the node cannot be reached.
    #[must_use]
    pub fn exists_now(&self, key: &str) -> bool {
        let client = redis::Client::open(self.url.as_str()).expect("a good URL");
        let mut connection = client.get_connection().expect("the node answers");
        redis::cmd("EXISTS").arg(key).query(&mut connection).expect("an answer")
    }

    /// The mark of a name's slot: the largest token that the node has accepted in it. `None`
    /// without a mark.
    pub async fn mark(&self, name: &str) -> Option<u64> {
        self.ask(&["ZSCORE", mark_key(name), "m"]).await
    }

    /// Sets the mark, as if the node had accepted that token.
    pub async fn set_mark(&self, name: &str, mark: u64) {
        self.ask::<i64>(&["ZADD", mark_key(name), &mark.to_string(), "m"]).await;
    }

    /// Lets the node log all commands from now on.
    pub async fn log_all(&self) {
        self.ask::<String>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
    }

    /// The latest commands, each as its words.
    pub async fn slow_log(&self) -> Vec<Vec<String>> {
        let log: Vec<redis::Value> = self.ask(&["SLOWLOG", "GET", "-1"]).await;
        let words = |entry: redis::Value| {
            let redis::Value::Array(parts) = entry else { return None };
            redis::from_redis_value(parts.get(3)?.clone()).ok()
        };
        log.into_iter().filter_map(words).collect()
    }

    /// Subscribes to a channel, on a connection of its own.
    ///
    /// # Panics
    /// If the node cannot be reached.
    pub async fn listen(&self, channel: &str) -> Channel {
        let client = redis::Client::open(self.url.as_str()).expect("a good URL");
        let mut connection = client.get_async_pubsub().await.expect("the node answers");
        connection.subscribe(channel).await.expect("subscribed");
        Channel { messages: connection.into_on_message().boxed() }
    }
}

/// The key of the mark of a name's slot.
///
/// # Panics
/// If `name` is not a valid name.
#[must_use]
pub fn mark_key(name: &str) -> &'static str {
    Name::new(name).expect("a good name").mark_key()
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The messages of one channel.
pub struct Channel {
    messages: Pin<Box<dyn Stream<Item = Msg> + Send>>,
}

impl Channel {
    /// The next message, byte for byte.
    ///
    /// # Panics
    /// If no message arrives within [`MAX_WAIT`].
    pub async fn next(&mut self) -> String {
        let message = within("a message", self.messages.next()).await.expect("still connected");
        message.get_payload().expect("text")
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").finish_non_exhaustive()
    }
}
