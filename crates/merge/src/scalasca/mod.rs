//! Writes a single trace of MPI and NCCL for Scalasca's analyser.
//!
//! The analyser knows only MPI calls, and only on the first thread of a process. So an NCCL communicator becomes a
//! communicator of MPI ranks, and a rank's operations are moved to periods in which that thread waits.

mod host;
mod order;
mod retain;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use analysis::units::plural;
use anyhow::{Context as _, Result, bail};
use exports::scalasca::events::{self, Numbers};
use exports::scalasca::rank::Rank;
use exports::scalasca::{complete, regions};
use nccl_events::Progress;
use otf2::verbatim::{Definition, EventRecords, ReferenceKind};
use otf2::{CommRef, GroupRef, GroupType, LocationGroupType, LocationRef, LocationType, Paradigm, RegionRef};
use small_sort::Gather;

use crate::alignment::{self, OwnTicks};
use crate::definitions::Merged;
use crate::inputs::Inputs;
use crate::output::local::LocalNumbers;
use crate::output::thread::records;
use crate::output::{self, Written, anchor};
use crate::pairing::Pair;
use crate::scorep::ScoreP;
use host::Host;
use retain::{Communicator, Hosts, operations, retain, retain_replayable};

/// First request number for NCCL's messages; MPI's are lower.
const FIRST_REQUEST: u64 = 1 << 62;

fn refuse(inputs: &Inputs) -> Result<&ScoreP> {
    let [scorep] = inputs.scoreps.as_slice() else {
        bail!("--for scalasca is for one trace of Score-P's, of all ranks of MPI");
    };
    let anchor = scorep.archive.anchor_file().display();
    let definitions = &scorep.definitions;
    if scorep.mpi_list().is_none() {
        bail!("{anchor} has no ranks of MPI: `nccl-otf2 export --format scalasca` makes archives of NCCL's alone");
    }
    let mut locations = definitions.locations.values();
    if let Some(other) = locations.find(|location| location.location_type != LocationType::CpuThread) {
        bail!(
            "{anchor} has the location {:?}, which is not a thread: Scalasca's analyser then refuses the whole trace. \
             Measure with NCCL_OTF2_SCOREP=calls, and without Score-P's adapters for GPUs",
            definitions.string(other.name).unwrap_or("?")
        );
    }
    if definitions.location_groups.values().any(|group| group.group_type != LocationGroupType::Process) {
        bail!("{anchor} has groups of locations that are no processes, which Scalasca's analyser takes for ranks");
    }
    Ok(scorep)
}

pub(crate) fn write(inputs: &Inputs, directory: &Path, progress: &dyn Progress) -> Result<Written> {
    let scorep = refuse(inputs)?;
    let mut left_out = Vec::new();
    let mut hosts = Hosts::new();
    let mut communicators = Vec::new();
    for (number, nccl) in inputs.nccls.iter().enumerate() {
        let trace = &nccl.trace;
        let lacks = complete::incompleteness(trace);
        for comm in trace.definitions.comms.keys().copied() {
            let name = trace.comm_name(comm);
            let reason = lacks.clone().or_else(|| complete::missing_ranks(trace, comm));
            let found = match reason {
                Some(reason) => Err(reason),
                None => communicator(inputs, &mut hosts, number, comm)?.map_err(str::to_owned),
            };
            let mut found = match found {
                Ok(found) => found,
                Err(reason) => {
                    left_out.push(format!("{name}: {reason}"));
                    continue;
                }
            };
            let without_room = retain(&mut found, &hosts);
            if without_room > 0 {
                let number = plural(without_room, "operation", "operations");
                left_out.push(format!(
                    "{name}: {number} left out, during which a rank was in calls of MPI's, or which it waited for \
                     after another one"
                ));
            }
            communicators.push(found);
        }
    }
    for (name, number) in retain_replayable(&mut communicators) {
        let number = plural(number, "operation", "operations");
        left_out.push(format!(
            "{name}: {number} left out, which on some rank overlap one of another communicator, or come in another \
             order than on others"
        ));
    }
    communicators.retain(|it| it.ranks.iter().any(|rank| operations(rank) > 0));
    if communicators.is_empty() {
        bail!("nothing of NCCL's can be analysed: {}", left_out.join("; "));
    }
    let written = write_archive(inputs, scorep, &hosts, &communicators, directory, progress)?;
    Ok(Written { left_out, ..written })
}

/// What the ranks did, in the time of their processes' first threads, or why the communicator cannot become MPI's.
fn communicator<'a>(
    inputs: &'a Inputs,
    hosts: &mut Hosts<'a>,
    number: usize,
    comm: CommRef,
) -> Result<Result<Communicator, &'static str>> {
    let nccl = &inputs.nccls[number];
    let trace = &nccl.trace;
    let members = trace.members(comm);
    let pairs: Option<Vec<&Pair>> = members
        .iter()
        .map(|location| {
            let group = nccl.process_of(*location);
            inputs.pairs.iter().find(|pair| pair.nccl.archive == number && inputs.ours(pair).group == group)
        })
        .collect();
    let Some(pairs) = pairs else {
        return Ok(Err("a rank is of a process that MPI does not have"));
    };
    let mpi_ranks: Vec<u32> = pairs.iter().map(|pair| inputs.theirs(pair).id.rank).collect();
    if mpi_ranks.iter().gather::<BTreeSet<&u32>>().len() < mpi_ranks.len() {
        return Ok(Err("several of its ranks are of one process, which is one rank of MPI's"));
    }
    let (mut ranks, _) = complete::read(trace, comm).context("cannot read the events of a rank")?;
    for ((location, rank), pair) in members.iter().zip(&mut ranks).zip(&pairs) {
        let process = inputs.theirs(pair);
        if let Entry::Vacant(entry) = hosts.entry(process.id.rank) {
            entry.insert(Host::read(inputs.scorep(pair), process)?);
        }
        let Some(ticks) = OwnTicks::of(inputs, pair, *location)? else {
            return Ok(Err("a rank has no clock"));
        };
        for operation in &mut rank.collectives {
            (operation.begin, operation.end) = (ticks.at(operation.begin), ticks.at(operation.end));
        }
        for end in rank.sends.iter_mut().chain(&mut rank.receives) {
            (end.begin, end.end) = (ticks.at(end.begin), ticks.at(end.end));
        }
    }
    Ok(Ok(Communicator { name: trace.comm_name(comm), members: mpi_ranks, ranks }))
}

/// Defines the regions of MPI functions, with NCCL's names, and returns the first number.
fn define_regions(merged: &mut Merged) -> Result<u32> {
    let source_file = merged.string(b"MPI")?;
    let description = merged.string(b"operation of NCCL's")?;
    let mut first = None;
    for (canonical, name, role) in regions::all() {
        let this = RegionRef::new(merged.free(ReferenceKind::Region)?);
        first = first.or(Some(this.get()));
        let (name, canonical_name) = (merged.string(name.as_bytes())?, merged.string(canonical.as_bytes())?);
        merged.push(Definition::Region {
            this,
            name,
            canonical_name,
            description,
            role: role.raw(),
            paradigm: Paradigm::Mpi.raw(),
            flags: 0,
            source_file,
            begin_line: 0,
            end_line: 0,
        });
    }
    first.context("there are no regions")
}

fn define_communicator(merged: &mut Merged, communicator: &Communicator) -> Result<CommRef> {
    let name = merged.string(format!("NCCL {}", communicator.name).as_bytes())?;
    let group = GroupRef::new(merged.free(ReferenceKind::Group)?);
    merged.push(Definition::Group {
        this: group,
        name,
        group_type: GroupType::CommGroup.raw(),
        paradigm: Paradigm::Mpi.raw(),
        flags: 0,
        members: communicator.members.iter().copied().map(u64::from).collect(),
    });
    let comm = CommRef::new(merged.free(ReferenceKind::Comm)?);
    merged.push(Definition::Comm { this: comm, name, group, parent: CommRef::UNDEFINED, flags: 0 });
    Ok(comm)
}

fn write_archive(
    inputs: &Inputs,
    scorep: &ScoreP,
    hosts: &Hosts<'_>,
    communicators: &[Communicator],
    directory: &Path,
    progress: &dyn Progress,
) -> Result<Written> {
    let mut merged = Merged::new(scorep.verbatim.clone());
    let first_region = define_regions(&mut merged)?;
    let mut first_request = FIRST_REQUEST;
    let mut members: BTreeMap<u32, Vec<(&Rank, Numbers)>> = BTreeMap::new();
    for communicator in communicators {
        let numbers = Numbers { comm: define_communicator(&mut merged, communicator)?, first_region, first_request };
        let requests = communicator.ranks.iter().map(|rank| rank.sends.len() + rank.receives.len());
        first_request += requests.max().map_or(0, |most| most as u64);
        for (rank, member) in communicator.ranks.iter().zip(&communicator.members) {
            members.entry(*member).or_default().push((rank, numbers));
        }
    }
    // NCCL's properties count events that are not in this archive.
    let chunks = anchor::chunks(inputs, &merged, &[])?;
    let mut writer = anchor::begin(inputs, &[], directory, chunks)?;
    progress.begin("locations", scorep.definitions.locations.len() as u64);
    let masters: BTreeSet<LocationRef> = members.keys().map(|rank| hosts[rank].process.master).gather();
    output::link_theirs(&writer, scorep, &masters, progress)?;
    let mut events = BTreeMap::new();
    for (rank, operations) in &members {
        let host = &hosts[rank];
        let master = host.process.master;
        let file = writer.event_file(master);
        let (mut both, chunk_bytes) = (None, writer.chunks().events);
        for (rank, numbers) in operations {
            let own = records(directory, master, |to| Ok(events::write_thread(to, rank, *numbers)?))?;
            let before = both.as_ref().unwrap_or(&host.records);
            before.write_with(&own, &before.by_time(&own), &file, chunk_bytes)?;
            both = Some(EventRecords::read(&file, chunk_bytes)?);
        }
        events.insert(master, both.map_or(0, |records| records.as_slice().len() as u64));
        LocalNumbers::read(scorep, master, &merged)?.write(&mut writer, master)?;
        progress.step();
    }
    merged.set_number_of_events(&events);
    progress.end();
    let span = alignment::span_of_traces(inputs);
    output::finish(writer, &merged.finish(span, alignment::began_ns(inputs, span.0)), &events, progress)
}
