//! End to end: a free lock is taken and given back, on servers that are started here. For changes
//! from run to run on one machine; `make bench` compares with others.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{Criterion, criterion_group, criterion_main};
use futures::future::try_join_all;
use quorumlock_benches::bed::Bed;
use quorumlock_benches::cpu::Core;
use quorumlock_benches::subject::{Kind, Subject, Work};
use tokio::runtime::{Builder, Runtime};

fn pairs(c: &mut Criterion) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut bed = Bed::new(true);
    bed.clients_on(Core::Servers);
    for nodes in [1, 3, 5] {
        let urls = runtime.block_on(bed.group(nodes)).expect("servers (scripts/get-server)").urls();
        for kind in [Kind::Raw, Kind::Default, Kind::Like] {
            let subject = runtime.block_on(kind.connect(&urls)).expect("they answer");
            for tasks in [1, 64] {
                let names: Vec<_> = (0..tasks).map(|task| format!("bench:{task}")).collect();
                let each = format!("pair/{}, {nodes} nodes, {tasks} tasks at once", kind.name());
                all(&runtime, &subject, &names); // connections, scripts
                c.bench_function(&each, |b| b.iter(|| all(&runtime, &subject, &names)));
            }
        }
    }
}

/// One pair of every name.
fn all(runtime: &Runtime, subject: &Subject, names: &[String]) {
    let pairs = names.iter().map(|name| subject.hold(name, Work(None)));
    runtime.block_on(try_join_all(pairs)).expect("free locks");
}

criterion_group!(benches, pairs);
criterion_main!(benches);
