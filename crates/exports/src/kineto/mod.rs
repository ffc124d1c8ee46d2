//! Chrome's JSON as PyTorch's profiler (Kineto) writes it: a file per rank, or copies of Kineto's own files, enriched.
//!
//! ```text
//!  job        ranks and their numbers, kernels (operations of a rank that ran at the same time), who waited
//!   ├ locations  region instances as events: operators, launches, kernels, and tracks for the rest
//!   └ foreign_read, foreign_write    a torch.profiler trace: its kernels are matched with the archive's and get more
//!                arguments
//!  json       events as text, PyTorch's names
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Outcome, Result};
use crate::kineto::foreign_write::Foreign;
use crate::kineto::job::{FIRST_OWN_PID, Job};
use crate::kineto::json::{Events, Track, quoted};
use crate::kineto::locations::{EventCounts, Locations, track};
use crate::source::{Output, Selection, Source};
use analysis::try_in_parallel;
use nccl_events::archive::LocationKind;
use nccl_events::ids::index;
use otf2::LocationRef;

mod foreign_read;
mod foreign_write;
mod job;
mod json;
mod locations;

pub fn write(source: &Source<'_>, out: &Path) -> Result<Outcome> {
    let selection = Selection::new(*source)?;
    let job = Job::new(source)?;
    fs::create_dir(out).map_err(Error::io("make", out))?;
    let highest = job.ranks.iter().max().map_or(1, |rank| rank.to_string().len());
    let mut outcome = Outcome::default();
    let wanted = wanted(&job, &selection);
    let mut outputs = Vec::new();
    for (rank, number) in (0..).zip(&job.ranks) {
        if !wanted.contains(&rank) {
            outputs.push(None);
            continue;
        }
        let name = PathBuf::from(format!("rank-{number:0highest$}.pt.trace.json"));
        let output = Output::in_pieces(&out.join(&name))?;
        output.append(head(&job, rank))?;
        // Threads, and so their names, are in the files of all ranks that they work for.
        names(&job, &selection, rank, &output)?;
        outputs.push(Some(output));
        outcome.files.push(name);
    }
    let locations = Locations { job: &job, selection: &selection, outputs: &outputs };
    let steps = locations.steps()?;
    let written = source.each_location(selection.locations(), |location| locations.write(location))?;
    for output in outputs.into_iter().flatten() {
        output.append(format!("{}\n]\n}}\n", last_event(&job)))?;
        output.finish()?;
    }
    let sum = |count: fn(&EventCounts) -> u64| written.iter().map(count).sum();
    outcome.events = steps + sum(|counts| counts.events);
    outcome.leave_out(
        sum(|counts| counts.enqueued),
        "operations: only the time of enqueueing is known, not when they ran",
    );
    outcome.leave_out(sum(|counts| counts.unfinished), "operations had not ended");
    selection.other_records()?.left_out(false, &mut outcome);
    Ok(outcome)
}

/// Puts the archive's events into copies, in the folder `out`, of torch.profiler traces of the same job.
pub fn into(source: &Source<'_>, traces: &[PathBuf], out: &Path) -> Result<Outcome> {
    let names = crate::source::names(traces)?;
    let job = Job::new(source)?;
    fs::create_dir(out).map_err(Error::io("make", out))?;
    source.progress.begin("traces", traces.len() as u64);
    let written = try_in_parallel(traces, |path| {
        let written = Foreign::read(path)?.write(&job, &out.join(path.file_name().unwrap_or_default()));
        source.progress.step();
        written
    });
    let written: Vec<foreign_write::WriteCounts> = written?;
    source.progress.end();
    let sum = |count: fn(&foreign_write::WriteCounts) -> u64| written.iter().map(count).sum::<u64>();
    let [kernels, matched, uncertain] =
        [sum(|counts| counts.kernels), sum(|counts| counts.matched), sum(|counts| counts.uncertain)];
    source.progress.remark(&format!("{matched} of {kernels} NCCL kernels in the traces are matched"));
    let mut outcome = Outcome { files: names, events: sum(|counts| counts.events), ..Outcome::default() };
    outcome.leave_out(uncertain, "NCCL kernels in the traces match several operations, and got none");
    let without = kernels - matched - uncertain;
    outcome.leave_out(without, "NCCL kernels in the traces have no operation in the archive");
    outcome.leave_out(
        sum(|counts| counts.operations),
        "operations within the time of the traces have no kernel in \
        them",
    );
    Ok(outcome)
}

/// The ranks with wanted locations.
fn wanted(job: &Job<'_>, selection: &Selection<'_>) -> BTreeSet<u32> {
    let trace = job.source.trace;
    let mut found = BTreeSet::new();
    for location in selection.locations() {
        // Threads work for all ranks of their process.
        let is_shared = trace.is_thread(*location) || trace.location_kind(*location) == Some(LocationKind::ProxyThread);
        if is_shared {
            found.extend(job.wanted_of_process(trace.process(trace.group(*location))));
        } else {
            found.extend(job.owners.get(location));
        }
    }
    found
}

/// The text before the events: readers look for the rank in the first lines.
fn head(job: &Job<'_>, rank: u32) -> String {
    let device = job.device(rank);
    format!(
        "{{\n  \"schemaVersion\": 1,\n  \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": {}}},\n  \
         \"deviceProperties\": [{{\"id\": {device}, \"name\": {}}}],\n  \"displayTimeUnit\": \"ms\",\n  \
         \"baseTimeNanoseconds\": {},\n  \"traceEvents\": [\n",
        job.ranks[index(rank)],
        job.world_size(),
        quoted(job.source.trace.group_name(job.tables.members.job_ranks[index(rank)].group)),
        job.source.begin_ns()
    )
}

/// The last event, without a trailing comma.
fn last_event(job: &Job<'_>) -> String {
    let end = json::Microseconds(job.source.length_ns());
    format!(
        "{{\"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\", \"pid\": \"\", \"tid\": \"\", \"ts\": {end}}}"
    )
}

fn names(job: &Job<'_>, selection: &Selection<'_>, rank: u32, output: &Output) -> Result<()> {
    let trace = job.source.trace;
    let mut events = Events::new(output, None);
    let (process, number) = (job.process(rank), job.ranks[index(rank)]);
    let (host, device) = (job.process_id(process).unwrap_or(0), job.device(rank));
    let own = FIRST_OWN_PID + u64::from(rank);
    let group = job.tables.members.job_ranks[index(rank)].group;
    events.name("process", Track { pid: host, tid: 0 }, trace.group_name(process), 0);
    events.name("process", Track { pid: device, tid: 0 }, trace.group_name(group), FIRST_OWN_PID);
    events.name("process", Track { pid: own, tid: 0 }, &format!("NCCL of rank {number}"), FIRST_OWN_PID + 1);
    let is_wanted = |location: &LocationRef| selection.locations().binary_search(location).is_ok();
    for location in
        job.locations_of(job.first_of_process(rank)).filter(is_wanted).filter(|location| trace.is_thread(*location))
    {
        let track = Track { pid: host, tid: job.thread(location) };
        events.name("thread", track, &trace.location_name(location), track.tid);
    }
    for location in job.locations_of(rank).filter(is_wanted).filter(|location| !trace.is_thread(*location)) {
        let track = match trace.location_kind(location) {
            Some(LocationKind::Communicator | LocationKind::Stream) => job.stream(rank, location),
            _ => track(job, rank, location, own),
        };
        events.name("thread", track, &trace.location_name(location), track.tid);
    }
    events.finish().map(|_| ())
}
