//! Flight recordings whose maintenance thread is late: no file is removed that is used afterwards.

use std::path::Path;

use journal::reader::Journal;
use whole_plugin::machine::c_library;
use whole_plugin::process::{LIMIT, Running, start};
use whole_plugin::scratch::Scratch;
use whole_plugin::synthetic::Random;

use super::from_environment;

/// Processes at once: they sleep most of the time.
const TOGETHER: u64 = 4;

/// A burst that outruns the maintenance thread, and after what is old was removed the records that must be there.
fn begin(scratch: &Scratch, slow_disk: &Path, random: &mut Random) -> (u64, Running) {
    let (burst, last) = (random.between(30_000, 60_000), random.between(5_000, 12_000));
    let group = "start g GroupApi ctx=c depth=1\nstop g\n";
    let script = format!(
        "init c ranks=1 rank=0
        repeat {burst} {{
          {group}
        }}
        sleep 2500ms
        repeat {last} {{
          {group}
        }}
        finalize c\n"
    );
    let mut command = scratch.script(&script);
    command.env("NCCL_OTF2_MODE", "flight").env("NCCL_OTF2_FLIGHT_SECONDS", "1");
    command.env("NCCL_OTF2_FINALIZE", "offline");
    command.env("LD_PRELOAD", slow_disk).env("SLOW_DISK_US", random.between(20_000, 250_000).to_string());
    (burst + last, start(&mut command))
}

#[test]
fn bursts_of_flight_recordings_lose_nothing() {
    let rounds = from_environment("NCCL_OTF2_TEST_KILLS", 40).div_ceil(10);
    let mut random = Random(from_environment("NCCL_OTF2_TEST_SEED", 1));
    for round in 0..rounds {
        let running: Vec<(Scratch, u64, Running)> = (0..TOGETHER)
            .map_while(|_| {
                let scratch = Scratch::new();
                let library = scratch.path().join("slow_disk.so");
                c_library("tests/torture/slow_disk.c", &library)?;
                let (groups, running) = begin(&scratch, &library, &mut random);
                Some((scratch, groups, running))
            })
            .collect();
        for (scratch, groups, running) in running {
            let _ended = running.wait(LIMIT).undisturbed(&[]);
            let mut parts = std::fs::read_dir(scratch.out().join("parts")).expect("parts");
            let part = parts.next().expect("a part").expect("an entry").path();
            let read = Journal::open(&part.join("journal")).expect("a journal").read(&mut |_| ()).expect("read");
            assert_eq!(read.problems, [], "round {round}");
            assert_eq!(read.started, groups, "round {round}: the last records are there");
            assert!(read.removed.starts > 0, "round {round}: {:?}", read.removed);
        }
    }
}
