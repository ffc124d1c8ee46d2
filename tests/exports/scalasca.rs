//! Archives for Scalasca, of jobs that did not end well. `tests/scalasca.rs` has its analyser read those that did.

use std::time::Duration;

use serde_json::Value;
use whole_plugin::process::{run, start};
use whole_plugin::scratch::Scratch;

const LIMIT: Duration = Duration::from_secs(60);

/// Three collectives that ended and one that did not, on the last of two ranks.
fn calls(rank: usize) -> String {
    let ended =
        format!("start co Coll ctx=c rank={rank} func=AllReduce count=7 datatype=ncclFloat32\nstop co\nsleep 1ms\n");
    let last = if rank == 1 { ended.replace("stop co\n", "") } else { ended.clone() };
    format!("init c id=0x55 ranks=2 rank={rank}\n{}{last}finalize c\n", ended.repeat(3))
}

#[test]
fn a_collective_that_had_not_ended_is_left_out() {
    let scratch = Scratch::new();
    let processes = [0, 1].map(|rank| start(&mut scratch.rank(rank, 2, &calls(rank))));
    processes.into_iter().for_each(|process| drop(process.wait(LIMIT).with_code(0)));
    let _whole = run(&mut scratch.tool(&["finalize", "out"])).with_code(0);
    let said = run(&mut scratch.tool(&["export", "--format", "scalasca", "out", "--json", "-o", "scalasca"])).stdout;
    let said: Value = serde_json::from_str(&said).expect("JSON");
    let world = &said["communicators"][0];
    assert_eq!((&world["collectives"], &world["collectives_left_out"]), (&3.into(), &1.into()), "{said:#}");
}
