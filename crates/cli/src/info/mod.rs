//! `nccl-otf2 info`: shows what an archive contains.
//!
//! It counts the records of any writer in one pass, with memory for two chunks and for the durations. So it uses the
//! region instances of `analysis` instead of its tables, which have rows only for NCCL's operations.

mod communicators;
mod gpus;
mod operations;
mod report;
mod text;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use analysis::Completeness;
use anyhow::{Context as _, Result};
use clap::Args;
use nccl_events::Progress as _;
use otf2::LocationRef;

use crate::archive::{self, is_merged};
use crate::exit::Exit;
use crate::print;
use crate::progress::Bar;
use crate::units::count;

use communicators::Communicators;
use operations::Operations;
pub(crate) use report::Report;
use report::{Tables, places};

const EXAMPLES: &str = "\
Examples:
  nccl-otf2 info trace
  nccl-otf2 info --json trace/traces.otf2 | jq '.operations[].duration_ns'

Operations are counted on every rank that ran them: an all-reduce of 8 ranks counts 8 times. Their times are \
those of the operation, not of the call. `timing` says what they were measured by:
  cupti          the kernels, as CUPTI reported
  event          CUDA events around the launch
  kernelch       the GPU's own times
  kernelch-host  when the host heard of them
  shared-kernel  while the other operations of its kernel ran
  proxy          from the launch to the last network transfer
  enqueue        only the time it took to queue them, not how long they ran

--json prints an object:
  format         version of this description: 1
  anchor, creator, nccl_versions, profiler_tables, plugin_versions,
  event_sets, steps (NCCL_OTF2_STEPS), commands, job
  other_jobs     directories of other jobs that recorded into this one; they
                 are not in this archive
  start_ns       first event, in ns since 1970; null where it is not known
  duration_ns    from there to the last one
  locations, events
  hosts          name, processes
  processes      name, host, gpus, locations, events
  communicators  name, ranks, ranks_recorded, collectives (records of all
                 ranks by OTF2's operation), sends, receives, bytes_sent and
                 bytes_received of messages
  operations     function, bytes_min and bytes_max (of the class), count,
                 unfinished, timing (count by source), duration_ns {min,
                 median, max, total} of those that ended, algbw and busbw in
                 bytes per second {median, max}; null where there is none
  messages       communicator, from, to, count, bytes
  completeness   kinds {kind: {seen, written, ...}}, other,
                 callbacks_lost, callbacks_late (when recording had ended),
                 switches (times that recording was switched off or on),
                 problems, problem_count, parts_left_out, topology_unused,
                 ranks_missing, ranks_impossible {number, lines}, collectives_unmatched, matching {mismatches
                 by kind, ranks_behind, unknown: number and lines of each}
  blind_spots    what this release of NCCL does not report, as far as it
                 is known: nobody can find it in the archive
  gpus           backends (how work of GPUs was recorded), notices (what was decided and
                 what went wrong), numbers (docs/REFERENCE.md §7), clocks (a line each)
  clock          the archive's statements on its clocks
  recording      flight {processes, complete_from_ns (since 1970), lines},
                 switches (a line each time recording was switched), pxn
                 {transfers, counted, unresolved, lines}; null where there is none
New fields may be added; `format` changes when one changes or goes.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// A job's directory or the anchor file of an archive
    #[arg(value_name = "DIR|traces.otf2")]
    path: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn info(request: &Request) -> Result<Exit> {
    let trace = archive::open(&request.path)?;
    let mut operations = Operations::new(&trace);
    let mut communicators = Communicators::of(&trace);
    // Definitions promise numbers, which those of a damaged archive may not keep.
    let mut events: BTreeMap<LocationRef, u64> = BTreeMap::new();
    let bar = Bar::new();
    bar.begin("locations", trace.definitions.locations.len() as u64);
    // One location at a time: counting needs no order between locations, and memory stays at two chunks.
    for location in trace.definitions.locations.keys().copied() {
        // NCCL's archive also contains what was passed to Score-P while the job ran.
        let is_scorep = is_merged(&trace.archive) && trace.location_kind(location).is_none();
        operations.next_location();
        let counted = trace
            .archive
            .for_each_event(&[location], |_, event| {
                communicators.event(&trace, location, event);
                if !is_scorep {
                    operations.event(event);
                }
                ControlFlow::Continue(())
            })
            .context("the archive is damaged, `nccl-otf2 check` says more")?;
        events.insert(location, counted);
        bar.step();
    }
    drop(bar);
    let (hosts, processes) = places(&trace, &events);
    let events = events.values().sum();
    if events != trace.events() {
        let promised = count(trace.events());
        print::note(format_args!("{promised} events are promised, {} are there: see `nccl-otf2 check`", count(events)));
    }
    let (communicators, messages) = communicators.finish();
    let completeness = Completeness::of(&trace.statements);
    let tables =
        Tables { events, hosts, processes, communicators, operations: operations.finish(), messages, completeness };
    if request.json {
        print::json(&Report::of(&trace, &tables))?;
    } else {
        print::text(&text::text(&trace, &tables))?;
    }
    Ok(Exit::Well)
}
