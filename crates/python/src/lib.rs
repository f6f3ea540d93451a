//! The native module of the Python package `quorumlock`: locks, their waits and their conversions.
//!
//! The Python files beside it are the public API. What waits here is an [`op::Op`]: a call that has
//! not begun, which the caller's thread waits for, or a loop of asyncio. No thread of the library
//! ever takes the GIL: it may be blocked for longer than a lease.

mod answers;
mod ask;
mod bridge;
mod errors;
mod exit;
mod guard;
mod hold;
mod locker;
mod op;
mod options;
mod outcome;
mod request;
mod runtime;
mod servers;
mod shown;
mod stream;
mod testing;

use pyo3::prelude::*;

// Without the GIL nobody has tested it: abi3 has no free-threaded form before Python 3.15.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<bridge::Bridge>()?;
    module.add_class::<hold::Hold>()?;
    module.add_class::<servers::ListedLock>()?;
    module.add_class::<locker::Locker>()?;
    module.add_class::<op::Op>()?;
    module.add_class::<request::Owner>()?;
    module.add_class::<servers::Servers>()?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<testing::MemoryServer>()?;
    module.add_function(wrap_pyfunction!(exit::release_all, module)?)?;
    module.add_function(wrap_pyfunction!(options::option_kinds, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("FENCED_GET", quorumlock::fencing::FENCED_GET)?;
    module.add("FENCED_SET", quorumlock::fencing::FENCED_SET)?;
    Ok(())
}
