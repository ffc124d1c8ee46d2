//! Whatever the order: several threads call for several communicators, what is legal and what is not, with each other's
//! handles. The job is not disturbed, every row of the archive is ordered and nested, and as many events come out as
//! went in.
//!
//! `PROPTEST_CASES` sets how many; a failure prints the smallest script that it found.

use std::fmt::Write as _;

use proptest::prelude::*;
use whole_plugin::kinds;
use whole_plugin::scratch::Scratch;

use crate::drive::archive_under;

/// Tables, and a release that has it.
const TABLES: [(u32, u32); 4] = [(4, 22_707), (5, 22_809), (6, 22_907), (7, 23_203)];
/// Few, so that threads meet.
const HANDLES: usize = 12;
const COMMUNICATORS: usize = 3;
/// So many callbacks at most in a thread.
const CALLS: usize = 60;

#[derive(Clone, Debug)]
enum Call {
    Start { handle: usize, kind: usize, context: String, parent: String, number: u8 },
    Stop(String),
    State { handle: String, number: u8, args: &'static str },
    Init(usize),
    Finalize(usize),
}

/// A handle of the few, or one that nobody gave.
fn handle() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => (0..HANDLES).prop_map(|number| format!("h{number}")),
        1 => Just("NULL".to_owned()),
        1 => Just("0x55aa00001000".to_owned()),
    ]
}

fn context() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => (0..COMMUNICATORS).prop_map(|number| format!("c{number}")),
        1 => Just("NULL".to_owned()),
        1 => Just("0x7f0012340000".to_owned()),
    ]
}

fn call(kinds: usize) -> impl Strategy<Value = Call> {
    // One kind more than there are.
    let start = (0..HANDLES, 0..=kinds, context(), handle(), any::<u8>())
        .prop_map(|(handle, kind, context, parent, number)| Call::Start { handle, kind, context, parent, number });
    let args = prop_oneof![Just("args=NULL"), Just("args=zero")];
    let state = (handle(), 0_u8..36, args).prop_map(|(handle, number, args)| Call::State { handle, number, args });
    prop_oneof![
        12 => start,
        10 => handle().prop_map(Call::Stop),
        8 => state,
        1 => (0..COMMUNICATORS).prop_map(Call::Init),
        1 => (0..COMMUNICATORS).prop_map(Call::Finalize),
    ]
}

/// A table, and each thread's callbacks.
fn job() -> impl Strategy<Value = (usize, Vec<Vec<Call>>)> {
    (0..TABLES.len()).prop_flat_map(|table| {
        let thread = prop::collection::vec(call(kinds::kinds_of_table(TABLES[table].0).len()), 1..CALLS);
        (Just(table), prop::collection::vec(thread, 1..5))
    })
}

/// The field that makes a difference for drawing.
fn fields(kind: &str, number: u8) -> String {
    match kind {
        "Coll" | "CollApi" => "func=AllReduce count=1 datatype=ncclFloat32".to_owned(),
        "P2p" | "P2pApi" => "func=Send count=1 datatype=ncclFloat32".to_owned(),
        "ProxyOp" => format!("channel={number} peer=0 steps=2 is_send={}", number % 2),
        "ProxyStep" => format!("step={}", number % 3),
        "KernelCh" => format!("channel={number} gpu_ns={number}"),
        "KernelPhase" => format!("channel={number} phase={} phase_name=compute", number % 4),
        _ => String::new(),
    }
}

fn line(script: &mut String, call: &Call, kinds: &[&str]) {
    let written = match call {
        Call::Start { handle, kind, context, parent, number } => {
            let (name, fields) = match kinds.get(*kind) {
                Some(name) => ((*name).to_owned(), fields(name, *number)),
                // Bits that mean nothing together.
                None => ("3".to_owned(), String::new()),
            };
            writeln!(script, "start h{handle} {name} ctx={context} parent={parent} {fields}")
        }
        Call::Stop(handle) => writeln!(script, "stop {handle}"),
        Call::State { handle, number, args } => writeln!(script, "state {handle} {number} {args}"),
        Call::Init(number) => writeln!(script, "init c{number} id={number} ranks=1 rank=0"),
        Call::Finalize(number) => writeln!(script, "finalize c{number}"),
    };
    written.expect("a string takes all");
}

/// One communicator lives through it all: what is called is recorded, whatever ends meanwhile.
fn script(threads: &[Vec<Call>], kinds: &[&str]) -> String {
    let mut script = "init all id=99 ranks=1 rank=0\n".to_owned();
    for number in 0..COMMUNICATORS {
        line(&mut script, &Call::Init(number), kinds);
    }
    for number in 0..HANDLES {
        writeln!(script, "set h{number} NULL").expect("a string takes all");
    }
    for (number, calls) in threads.iter().enumerate() {
        let all = threads.len();
        writeln!(script, "thread t{number} {{\nbarrier begin {all}").expect("a string takes all");
        for call in calls {
            line(&mut script, call, kinds);
        }
        script.push_str("}\n");
    }
    script.push_str("join\n");
    for number in 0..COMMUNICATORS {
        line(&mut script, &Call::Finalize(number), kinds);
    }
    script.push_str("finalize all\n");
    script
}

/// How many of each kind were started; the last is what no version knows.
fn started(threads: &[Vec<Call>], kinds: &[&str]) -> Vec<(String, u64)> {
    let mut sent = vec![0; kinds.len() + 1];
    for call in threads.iter().flatten() {
        if let Call::Start { kind, .. } = call {
            sent[*kind] += 1;
        }
    }
    let names = kinds.iter().map(|name| name.to_uppercase());
    names.chain(["UNKNOWN".to_owned()]).zip(sent).collect()
}

fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(16)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        // A case takes some tenths of a second.
        max_shrink_iters: 100,
        ..ProptestConfig::default()
    })]

    #[test]
    fn as_many_events_come_out_as_went_in((table, threads) in job()) {
        let (table, nccl) = TABLES[table];
        let kinds = kinds::kinds_of_table(table);
        let script = script(&threads, kinds);
        let scratch = Scratch::new();
        let archive = archive_under(Some(nccl), &scratch, table, &script);
        let properties = archive.properties();
        let count = |name: &str| -> u64 {
            let value = properties.get(&format!("NCCL::COUNT::{name}"));
            value.map_or(0, |value| value.trim().parse().expect("a number"))
        };
        for (kind, sent) in started(&threads, kinds) {
            prop_assert_eq!(count(&format!("{kind}::SEEN")), sent, "{} in\n{}", kind, script);
            let fates = ["WRITTEN", "LEFT_OUT", "NOT_SHOWN", "DUPLICATE"];
            let kept: u64 = fates.iter().map(|fate| count(&format!("{kind}::{fate}"))).sum();
            prop_assert_eq!(kept, sent, "{} in\n{}", kind, script);
            prop_assert_eq!(count(&format!("{kind}::LOST")), 0);
        }
    }
}
