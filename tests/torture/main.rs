//! Processes of a job that die at random instants, again and again: nothing that they had recorded is missing.
//!
//! Each round is a job of one to four processes that count the callbacks that have returned (`plugin-host endure`).
//! Then some or all are killed or end otherwise, and `finalize` makes the archive. For every process the part holds at
//! least what the counts say, and at most the one callback more that each thread may have been in.
//!
//! `cargo xtask torture --kills 1000` runs it long. A round that fails says the seed that repeats it.

mod ends;
mod flight;
mod ledger;
mod ownership;
mod round;
mod sessions;
mod verdict;

use std::time::Instant;

use round::Round;
use whole_plugin::synthetic::Random;

fn from_environment(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")),
        Err(_) => otherwise,
    }
}

#[test]
fn processes_that_die_at_any_instant() {
    let kills = from_environment("NCCL_OTF2_TEST_KILLS", 40);
    let seed = from_environment("NCCL_OTF2_TEST_SEED", 1);
    let began = Instant::now();
    let (mut killed, mut rounds, mut callbacks, mut processes) = (0, 0, 0, 0);
    while killed < kills {
        // A round depends on its own seed only: that repeats it.
        let seed = seed + rounds;
        let judged = Round::planned(&mut Random(seed)).run(seed);
        killed += judged.killed;
        callbacks += judged.callbacks;
        processes += judged.processes;
        rounds += 1;
    }
    println!(
        "seed {seed}: {killed} processes killed of {processes} in {rounds} jobs, {callbacks} callbacks had returned, \
         none is missing; {:.0} s",
        began.elapsed().as_secs_f64()
    );
    assert!(callbacks > 100 * kills, "they hardly worked: {callbacks}");
}
