//! Sessions that begin while others end, and exits meanwhile: every communicator has its records, in one archive.

use std::path::Path;
use std::process::Command;

use whole_plugin::machine::c_library;
use whole_plugin::process::{LIMIT, Running, start};
use whole_plugin::scratch::Scratch;
use whole_plugin::synthetic::Random;

use super::from_environment;

const THREADS: u64 = 3;
const COMMUNICATORS: u64 = 12;
const GROUPS: u64 = 100;

/// Communicators of a thread, one after the other. A session ends whenever no other thread has one.
fn communicators(number: u64) -> String {
    format!(
        "repeat {number} {{
           init c%t id=1%t00%i ranks=1 rank=0
           start l%t KernelLaunch ctx=c%t
           stop l%t
           repeat {GROUPS} {{
             start g%t GroupApi ctx=c%t
             stop g%t
           }}
           finalize c%t
         }}\n"
    )
}

/// On a device that is busy for a while: the end of a recording waits for it.
fn command(scratch: &Scratch, driver: &Path, script: &str, random: &mut Random) -> Command {
    let mut command = scratch.script(script);
    command.env("LD_PRELOAD", driver).env("NCCL_OTF2_GPU", "events");
    command.env("WATCHFUL_BUSY_MS", random.between(1, 60).to_string());
    command
}

fn to_the_end(scratch: &Scratch, driver: &Path, random: &mut Random) -> Running {
    let script = format!("parallel {THREADS} {{\n{}}}\n", communicators(COMMUNICATORS));
    start(&mut command(scratch, driver, &script, random))
}

/// The program exits while its threads begin and end sessions.
fn until_an_exit(scratch: &Scratch, driver: &Path, random: &mut Random) -> Running {
    let threads: String = (0..THREADS)
        .map(|thread| {
            let communicators = communicators(1000).replace("%t", &thread.to_string());
            let first = format!(
                "init f{thread} id=9{thread} ranks=1 rank=0\nstart e{thread} GroupApi ctx=f{thread}\nstop e{thread}\nfinalize f{thread}\nbarrier begun 4\n"
            );
            format!("thread t{thread} {{\n{first}{communicators}}}\n")
        })
        .collect();
    let script = format!("{threads}barrier begun 4\nsleep {}ms\nexit 3\n", random.between(1, 700));
    start(&mut command(scratch, driver, &script, random))
}

#[test]
fn sessions_that_begin_while_others_end_are_recorded() {
    let rounds = from_environment("NCCL_OTF2_TEST_KILLS", 40).div_ceil(10);
    let mut random = Random(from_environment("NCCL_OTF2_TEST_SEED", 1));
    for round in 0..rounds {
        let (whole, cut) = (Scratch::new(), Scratch::new());
        let driver = whole.path().join("libcuda.so.1");
        if c_library("tests/gpu/watchful_driver.c", &driver).is_none() {
            return;
        }
        let running = [to_the_end(&whole, &driver, &mut random), until_an_exit(&cut, &driver, &mut random)];
        let [to_the_end, until_an_exit] = running.map(|process| process.wait(LIMIT));

        let ended = to_the_end.with_code(0);
        // What is launched before the device has answered for the first time is not timed.
        let said = ended.our_lines();
        assert!(said.iter().all(|line| line.contains("launches are not timed")), "round {round}: {ended}");
        let archive = whole.sound_archive();
        let communicators = THREADS * COMMUNICATORS;
        assert_eq!(archive.count("GROUPAPI::WRITTEN"), communicators * GROUPS, "round {round}");
        assert_eq!(archive.count("KERNELLAUNCH::WRITTEN"), communicators, "round {round}");

        let ended = until_an_exit.with_code(3);
        let parts =
            std::fs::read_dir(cut.out().join("parts")).expect("parts").map(|part| part.expect("an entry").path());
        let unwritten: Vec<_> = parts.filter(|part| !part.join("done").exists()).collect();
        assert!(unwritten.is_empty(), "round {round}: {unwritten:?} {ended}");
        assert!(cut.out().join("traces.otf2").exists(), "round {round}: {ended}");
        let archive = cut.archive();
        archive.validate();
        // Each thread made a call before the exit could come.
        assert!(archive.count("GROUPAPI::WRITTEN") >= THREADS, "round {round}: {ended}");
    }
}
