//! Runs the scripts that ship, in Lua 5.1, as a server does.
//!
//! Each thread has one Lua state, which keeps the functions that it has compiled. Scripts have no
//! globals, so no run sees another one.

use std::cell::RefCell;
use std::rc::Rc;

use foldhash::{HashMap, HashMapExt as _};
use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};
use quorumlock_protocol::Name;
use quorumlock_redis::simulation::ScriptKind;
use smallvec::SmallVec;

use super::bug::Bug;
use super::commands::Execution;
use super::resp::Reply;
use super::script::Script;

/// The Lua of one thread.
struct Engine {
    lua: Lua,
    /// The server that executes the current script.
    execution: Rc<RefCell<Execution>>,
    /// The keys that the current script declares: services refuse a script that uses others.
    declared: Rc<RefCell<Vec<Box<[u8]>>>>,
    compiled: HashMap<(u64, Option<Bug>), Function>,
}

thread_local! {
    static ENGINE: RefCell<Engine> = RefCell::new(
        Engine::new().unwrap_or_else(|error| panic!("no Lua: {error}"))
    );
}

/// Runs a script on the server.
///
/// # Panics
/// If the script is no Lua.
pub fn run(
    execution: &mut Execution,
    script: &Script,
    bug: Option<Bug>,
    keys: &[&[u8]],
    args: &[&[u8]],
) -> Reply {
    ENGINE.with_borrow_mut(|engine| {
        std::mem::swap(execution, &mut engine.execution.borrow_mut());
        let reply = engine.run(script, bug, keys, args);
        std::mem::swap(execution, &mut engine.execution.borrow_mut());
        reply.unwrap_or_else(|error| error_reply(&error))
    })
}

/// Forgets what was compiled: there are many scripts, most of them of former runs.
pub fn forget_compiled() {
    ENGINE.with_borrow_mut(|engine| engine.compiled.clear());
}

impl Engine {
    fn new() -> mlua::Result<Self> {
        let (lua, execution) = (Lua::new(), Rc::<RefCell<Execution>>::default());
        let declared = Rc::<RefCell<Vec<Box<[u8]>>>>::default();
        let redis = lua.create_table()?;
        for (name, raises) in [("call", true), ("pcall", false)] {
            let (execution, declared) = (execution.clone(), declared.clone());
            let call = lua.create_function(move |lua, args: MultiValue| {
                let reply = call(&execution, &declared.borrow(), &args);
                match reply {
                    Reply::Error(text) if raises => Err(mlua::Error::runtime(text)),
                    reply => to_lua(lua, &reply),
                }
            })?;
            redis.set(name, call)?;
        }
        // No server here has replicas.
        for (name, flags) in [("REPL_NONE", 0), ("REPL_ALL", 3)] {
            redis.set(name, flags)?;
        }
        redis.set("set_repl", lua.create_function(|_, _flags: i64| Ok(()))?)?;
        redis.set(
            "error_reply",
            lua.create_function(|lua, text: LuaString| {
                let table = lua.create_table()?;
                table.set("err", text)?;
                Ok(table)
            })?,
        )?;
        lua.globals().set("redis", redis)?;
        Ok(Self { lua, execution, declared, compiled: HashMap::new() })
    }

    fn run(
        &mut self,
        script: &Script,
        bug: Option<Bug>,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> mlua::Result<Reply> {
        let function = match self.compiled.get(&(script.id, bug)) {
            Some(function) => function.clone(),
            None => {
                let function = self.lua.load(script.planted(bug)).into_function()?;
                self.compiled.insert((script.id, bug), function.clone());
                function
            }
        };
        let globals = self.lua.globals();
        let declared = keys.iter().map(|key| Box::from(*key));
        *self.declared.borrow_mut() = declared.collect();
        let keys = match script.kind {
            ScriptKind::Barrier => self.existing(keys)?,
            _ => self.texts(keys)?,
        };
        globals.raw_set("KEYS", keys)?;
        globals.raw_set("ARGV", self.texts(args)?)?;
        from_lua(&function.call::<Value>(())?)
    }

    fn texts(&self, texts: &[&[u8]]) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(texts.len(), 0)?;
        for (i, text) in texts.iter().enumerate() {
            table.raw_set(i + 1, self.lua.create_string(text)?)?;
        }
        Ok(table)
    }

    /// The keys of a barrier that exist, and in the global `EXISTING` their places. The first key
    /// is the admission record, the others are the marks of all slots, in order.
    fn existing(&self, keys: &[&[u8]]) -> mlua::Result<Table> {
        let (table, places) = (self.lua.create_table()?, self.lua.create_table()?);
        table.raw_set(1, self.lua.create_string(keys[0])?)?;
        let execution = self.execution.borrow();
        let mut slots: Vec<_> = execution.store.mark_slots().collect();
        slots.sort_unstable();
        for (i, slot) in slots.into_iter().enumerate() {
            let place = slot + 1;
            assert_eq!(keys[place], Name::mark_key_of(slot).as_bytes(), "the keys of a barrier");
            table.raw_set(place + 1, self.lua.create_string(keys[place])?)?;
            places.raw_set(i + 1, place + 1)?;
        }
        self.lua.globals().raw_set("EXISTING", places)?;
        Ok(table)
    }
}

fn call(execution: &RefCell<Execution>, declared: &[Box<[u8]>], args: &MultiValue) -> Reply {
    /// They have no key.
    const KEYLESS: [&[u8]; 4] = [b"time", b"info", b"publish", b"select"];

    let texts: SmallVec<[_; 8]> = args.iter().map(to_text).collect();
    let bytes: SmallVec<[_; 8]> = texts.iter().map(Text::bytes).collect();
    if let [name, key, ..] = &bytes[..]
        && !KEYLESS.contains(name)
    {
        let text = || [String::from_utf8_lossy(name), String::from_utf8_lossy(key)];
        assert!(declared.iter().any(|each| **each == **key), "an undeclared key: {:?}", text());
    }
    execution.borrow_mut().execute(&bytes)
}

/// An argument of `redis.call`.
enum Text {
    Lua(mlua::BorrowedBytes),
    Own(String),
}

impl Text {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Lua(bytes) => bytes,
            Self::Own(text) => text.as_bytes(),
        }
    }
}

fn to_text(value: &Value) -> Text {
    match value {
        Value::String(text) => Text::Lua(text.as_bytes()),
        Value::Integer(number) => Text::Own(number.to_string()),
        Value::Number(number) => Text::Own(number.to_string()),
        other => panic!("no argument of redis.call: {other:?}"),
    }
}

fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Int(number) => Value::Number(*number as f64),
        Reply::Text(text) => Value::String(lua.create_string(text)?),
        Reply::Nil => Value::Boolean(false),
        Reply::Status(text) => Value::Table(table_of(lua, "ok", text)?),
        Reply::Error(text) => Value::Table(table_of(lua, "err", text)?),
        Reply::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (i, item) in items.iter().enumerate() {
                table.raw_set(i + 1, to_lua(lua, item)?)?;
            }
            Value::Table(table)
        }
    })
}

fn table_of(lua: &Lua, key: &str, text: &str) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(key, text)?;
    Ok(table)
}

/// The reply to a client that a script's result stands for.
fn from_lua(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) => Reply::Int(*number as i64),
        Value::String(text) => Reply::text(&*text.as_bytes()),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => {
            if let Some(text) = table.raw_get::<Option<LuaString>>("err")? {
                return Ok(Reply::Error(text.to_string_lossy()));
            }
            if table.raw_get::<Option<LuaString>>("ok")?.is_some() {
                return Ok(Reply::OK);
            }
            let items = table.sequence_values::<Value>();
            Reply::Array(items.map(|item| from_lua(&item?)).collect::<mlua::Result<_>>()?)
        }
        _ => Reply::Nil,
    })
}

/// The reply if a command of a script failed.
fn error_reply(error: &mlua::Error) -> Reply {
    match error {
        mlua::Error::CallbackError { cause, .. } => error_reply(cause),
        mlua::Error::RuntimeError(text) => Reply::Error(text.clone()),
        other => panic!("a script failed: {other}"),
    }
}
