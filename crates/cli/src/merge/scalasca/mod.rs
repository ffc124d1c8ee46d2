//! `merge --for scalasca`: one trace of MPI and NCCL that Scalasca's analyser reads.
//!
//! It knows calls of MPI only, and only those of the first thread of a process. So a communicator of NCCL's becomes a
//! communicator of MPI's ranks, and what a rank did in it is put into the time of that thread, where it waits for it.

mod host;
mod order;
mod retain;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use analysis::Trace;
use analysis::rank::Rank;
use anyhow::{Context as _, Result, bail};
use otf2::verbatim::{Definition, ReferenceKind};
use otf2::{
    CommRef, GroupRef, GroupType, LocationGroupType, LocationRef, LocationType, Paradigm, PartWriter, RegionRef,
};
use trace::Progress as _;

use super::clocks::OwnTicks;
use super::definitions::Merged;
use super::nccl::Nccl;
use super::output::local::LocalNumbers;
use super::output::{self, verify};
use super::pairing::Pair;
use super::plan::Plan;
use super::records::Records;
use super::scorep::{Process, ScoreP};
use super::{clocks, report};
use crate::archive;
use crate::place::ANCHOR;
use crate::progress::Bar;
use crate::scalasca::events::{self, Numbers};
use crate::scalasca::{complete, regions};
use crate::staging::Staging;
use crate::units::plural;
use host::Host;
use retain::{Communicator, Hosts, operations, retain, retain_replayable};

/// Requests of NCCL's messages, beside those that MPI's have.
const FIRST_REQUEST: u64 = 1 << 62;

/// Refuses what the analyser would not read.
fn refuse(plan: &Plan) -> Result<&ScoreP> {
    let [scorep] = plan.scoreps.as_slice() else {
        bail!("--for scalasca is for one trace of Score-P's, of all ranks of MPI");
    };
    let anchor = scorep.archive.anchor_file().display();
    let definitions = &scorep.definitions;
    let mut lists = definitions.groups.values();
    if !lists.any(|group| group.group_type == GroupType::CommLocations && group.paradigm == Paradigm::Mpi) {
        bail!("{anchor} has no ranks of MPI: `nccl-otf2 export --format scalasca` makes archives of NCCL's alone");
    }
    let other = definitions.locations.values().find(|location| location.location_type != LocationType::CpuThread);
    if let Some(other) = other {
        bail!(
            "{anchor} has the location {:?}, which is no thread: Scalasca's analyser reads none of the trace then. \
             Measure with NCCL_OTF2_SCOREP=calls, and without Score-P's adapters for GPUs",
            definitions.string(other.name).unwrap_or("?")
        );
    }
    if definitions.location_groups.values().any(|group| group.group_type != LocationGroupType::Process) {
        bail!("{anchor} has groups of locations that are no processes, which Scalasca's analyser takes for ranks");
    }
    Ok(scorep)
}

/// Writes the archive, reads it back and puts it in place. Says what is not in it, and why.
pub(super) fn write(plan: &Plan, out: &Path) -> Result<(verify::Read, Vec<String>)> {
    let scorep = refuse(plan)?;
    let mut left_out = Vec::new();
    let mut hosts = Hosts::new();
    let mut communicators = Vec::new();
    for (number, nccl) in plan.nccls.iter().enumerate() {
        let trace = archive::open(nccl.archive.anchor_file())?;
        let lacks = complete::what_it_lacks(&trace);
        for comm in trace.definitions.comms.keys().copied() {
            let name = trace.comm_name(comm);
            let reason = lacks.clone().or_else(|| complete::missing_ranks(&trace, comm));
            let found = match reason {
                Some(reason) => Err(reason),
                None => communicator(plan, scorep, &mut hosts, (number, &trace), comm)?,
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
    let read = finish(plan, scorep, &hosts, &communicators, out)?;
    Ok((read, left_out))
}

/// What the ranks of a communicator did, in the time of the first threads of their processes; or why it cannot be a
/// communicator of MPI's ranks.
fn communicator<'a>(
    plan: &Plan,
    scorep: &'a ScoreP,
    hosts: &mut Hosts<'a>,
    (number, trace): (usize, &Trace),
    comm: CommRef,
) -> Result<Result<Communicator, String>> {
    let Some(nccl) = plan.nccls.get(number) else {
        return Ok(Err("its archive is not there".to_owned()));
    };
    let members = trace.members(comm);
    let processes: Option<Vec<&Process>> =
        members.iter().map(|location| process(scorep, nccl, number, &plan.pairs, *location)).collect();
    let Some(processes) = processes else {
        return Ok(Err("a rank is of a process that MPI does not have".to_owned()));
    };
    let different: BTreeSet<u32> = processes.iter().map(|process| process.rank).collect();
    if different.len() < processes.len() {
        return Ok(Err("several of its ranks are of one process, which is one rank of MPI's".to_owned()));
    }
    let (mut ranks, _) = complete::read(trace, comm)?;
    for process in &processes {
        if let Entry::Vacant(entry) = hosts.entry(process.rank) {
            entry.insert(Host::read(scorep, process)?);
        }
    }
    for ((location, rank), process) in members.iter().zip(&mut ranks).zip(&processes) {
        let mut locals = plan.locals.get(number).into_iter().flatten();
        let local = locals.find(|local| local.locations.contains(location));
        let ticks = local.map(|local| OwnTicks::of(scorep, process, local)).transpose()?.flatten();
        let Some(ticks) = ticks else {
            return Ok(Err("a rank has no clock".to_owned()));
        };
        let own = |time: &mut u64| *time = ticks.at(*time);
        for operation in &mut rank.collectives {
            own(&mut operation.begin);
            own(&mut operation.end);
        }
        for end in rank.sends.iter_mut().chain(&mut rank.receives) {
            own(&mut end.begin);
            own(&mut end.end);
        }
    }
    let members = processes.iter().map(|process| process.rank).collect();
    Ok(Ok(Communicator { name: trace.comm_name(comm), members, ranks }))
}

/// The process of Score-P's that a location of NCCL's is of.
fn process<'a>(
    scorep: &'a ScoreP,
    nccl: &Nccl,
    number: usize,
    pairs: &[Pair],
    location: LocationRef,
) -> Option<&'a Process> {
    let group = nccl.process_of(location)?;
    let pair = pairs.iter().find(|pair| {
        pair.nccl.0 == number && nccl.processes.get(pair.nccl.1).is_some_and(|process| process.group == group)
    })?;
    scorep.processes.get(pair.scorep.1)
}

/// Defines the regions of MPI's functions, under NCCL's names; their first number.
fn define_regions(merged: &mut Merged) -> u32 {
    let file = merged.string(b"MPI");
    let description = merged.string(b"operation of NCCL's");
    let mut first = None;
    for (canonical, name, role) in regions::all() {
        let this = RegionRef::new(merged.free_u32(ReferenceKind::Region));
        first = first.or(Some(this.get()));
        let (name, canonical_name) = (merged.string(name.as_bytes()), merged.string(canonical.as_bytes()));
        merged.push(Definition::Region {
            this,
            name,
            canonical_name,
            description,
            role: role.raw(),
            paradigm: Paradigm::Mpi.raw(),
            flags: 0,
            source_file: file,
            begin_line: 0,
            end_line: 0,
        });
    }
    first.unwrap_or_default()
}

/// Defines a communicator of MPI's ranks.
fn define_communicator(merged: &mut Merged, communicator: &Communicator, first_region: u32, requests: u64) -> Numbers {
    let name = merged.string(format!("NCCL {}", communicator.name).as_bytes());
    let group = GroupRef::new(merged.free_u32(ReferenceKind::Group));
    merged.push(Definition::Group {
        this: group,
        name,
        group_type: GroupType::CommGroup.raw(),
        paradigm: Paradigm::Mpi.raw(),
        flags: 0,
        members: communicator.members.iter().copied().map(u64::from).collect(),
    });
    let comm = CommRef::new(merged.free_u32(ReferenceKind::Comm));
    merged.push(Definition::Comm { this: comm, name, group, parent: CommRef::UNDEFINED, flags: 0 });
    Numbers { comm, first_region, first_request: FIRST_REQUEST + requests }
}

fn finish(
    plan: &Plan,
    scorep: &ScoreP,
    hosts: &Hosts<'_>,
    communicators: &[Communicator],
    out: &Path,
) -> Result<verify::Read> {
    let staging = Staging::create(out)?;
    let lines: Vec<String> = plan.pairs.iter().map(|pair| report::line(plan, pair)).collect();
    // Of NCCL's properties none: they count events that are not in this archive.
    let text = output::anchor::text(&plan.scoreps, &[], &lines, plan.clock());
    let mut merged = Merged::new(scorep.verbatim.clone());
    let first_region = define_regions(&mut merged);
    let mut requests = 0;
    let mut all: BTreeMap<u32, Vec<(&Rank, Numbers)>> = BTreeMap::new();
    for communicator in communicators {
        let numbers = define_communicator(&mut merged, communicator, first_region, requests);
        let most = communicator.ranks.iter().map(|rank| rank.sends.len() + rank.receives.len()).max();
        requests += most.unwrap_or(0) as u64;
        for (rank, member) in communicator.ranks.iter().zip(&communicator.members) {
            all.entry(*member).or_default().push((rank, numbers));
        }
    }
    let hosts: Vec<(&Host<'_>, Vec<(&Rank, Numbers)>)> =
        all.into_iter().filter_map(|(member, ranks)| Some((hosts.get(&member)?, ranks))).collect();
    let (ends, mut events) = (merged.ends(), BTreeMap::new());
    let bar = Bar::new();
    let mut writer = output::begin(staging.path(), scorep, &text)?;
    bar.begin("locations", scorep.definitions.locations.len() as u64);
    let masters: BTreeSet<LocationRef> = hosts.iter().map(|(host, _)| host.process.master).collect();
    output::link_theirs(&writer, scorep, &masters, &bar)?;
    let directory = staging.path().join("nccl");
    for (host, ranks) in &hosts {
        let master = host.process.master;
        let file = writer.event_file(master);
        let mut both = None;
        for (rank, numbers) in ranks {
            let mut part = PartWriter::create(&directory, "traces")?;
            let mut to = part.event_writer(master)?;
            events::write_thread(&mut to, rank, *numbers)?;
            let _events = to.close()?;
            let own = Records::read(&part.event_file(master))?;
            part.close()?;
            std::fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {}", directory.display()))?;
            let before = both.as_ref().unwrap_or(&host.records);
            let _events = before.write_with(&own, &before.by_time(&own), &file)?;
            both = Some(Records::read(&file)?);
        }
        events.insert(master, both.map_or(0, |records| records.all.len() as u64));
        LocalNumbers::read(scorep, master, &ends)?.write(&mut writer, master)?;
        bar.step();
    }
    merged.set_number_of_events(&events);
    bar.end();
    let span = clocks::span(&plan.scoreps, &[]);
    let began_ns = if plan.is_guess { None } else { clocks::began_ns(scorep, &plan.locals, span.0) };
    let definitions = merged.finish(span, began_ns);
    let mut to = writer.definitions()?;
    for definition in &definitions {
        to.verbatim(definition)?;
    }
    writer.close().context("cannot write the merged archive")?;
    let read = verify::verify(&staging.path().join(ANCHOR), &definitions, |_| false, |it| masters.contains(&it), &bar)
        .context("the merged archive is not sound, and was not put in place")?;
    drop(bar);
    staging.put_in_place()?;
    Ok(read)
}
