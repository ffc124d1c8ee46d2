//! Writes a single trace of MPI and NCCL for Scalasca's analyser.
//!
//! The analyser knows only MPI calls, and only on the first thread of a process. So an NCCL communicator becomes a
//! communicator of MPI ranks, and a rank's operations are moved to periods in which that thread waits.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::alignment::TickConversion;
use crate::definitions::MergedDefinitions;
use crate::inputs::Inputs;
use crate::output::{LocalNumbers, WrittenArchive, records};
use crate::pairing::Pair;
use crate::scorep::{Process, ScoreP};
use crate::{alignment, output};
use analysis::units::plural;
use anyhow::{Context as _, Result, bail};
use exports::scalasca;
use exports::scalasca::Numbers;
use exports::scalasca::complete;
use exports::scalasca::{MessageTimes, Operation, Rank};
use nccl_events::Progress;
use nccl_events::sort::Gather;
use otf2::verbatim::{Definition, EventRecords, RecordKind, ReferenceKind};
use otf2::{
    CommRef, GroupRef, GroupType, LocationGroupType, LocationRef, LocationType, MappingType, Paradigm, RegionRef,
};

/// First request number for NCCL's messages; MPI's are lower.
const FIRST_REQUEST: u64 = 1 << 62;

fn refuse(inputs: &Inputs) -> Result<&ScoreP> {
    let [scorep] = inputs.scoreps.as_slice() else {
        bail!("--for scalasca needs a single Score-P trace of all MPI ranks");
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
        bail!(
            "{anchor} has groups of locations that are not processes, which Scalasca's analyser would take for \
            ranks"
        );
    }
    Ok(scorep)
}

pub(crate) fn write(inputs: &Inputs, directory: &Path, progress: &dyn Progress) -> Result<WrittenArchive> {
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
                    "{name}: {number} left out, during which a rank was in MPI calls, or for which it waited only \
                    after another operation"
                ));
            }
            communicators.push(found);
        }
    }
    for (name, number) in retain_replayable(&mut communicators) {
        let number = plural(number, "operation", "operations");
        left_out.push(format!(
            "{name}: {number} left out, which on some rank overlap an operation of another communicator, or come in a \
            different order than on others"
        ));
    }
    communicators.retain(|communicator| communicator.ranks.iter().any(|rank| operations(rank) > 0));
    if communicators.is_empty() {
        bail!("no NCCL operation can be analysed: {}", left_out.join("; "));
    }
    let written = write_archive(inputs, scorep, &hosts, &communicators, directory, progress)?;
    Ok(WrittenArchive { left_out, ..written })
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
        return Ok(Err("a rank belongs to a process outside MPI"));
    };
    let mpi_ranks: Vec<u32> = pairs.iter().map(|pair| inputs.theirs(pair).id.rank).collect();
    if mpi_ranks.iter().gather::<BTreeSet<&u32>>().len() < mpi_ranks.len() {
        return Ok(Err("several of its ranks belong to one process, which is a single MPI rank"));
    }
    let (mut ranks, _) = complete::read(trace, comm).context("cannot read the events of a rank")?;
    for ((location, rank), pair) in members.iter().zip(&mut ranks).zip(&pairs) {
        let process = inputs.theirs(pair);
        if let Entry::Vacant(entry) = hosts.entry(process.id.rank) {
            entry.insert(Host::read(inputs.scorep(pair), process)?);
        }
        let Some(ticks) = TickConversion::read(inputs, pair, *location)? else {
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
fn define_regions(merged: &mut MergedDefinitions) -> Result<u32> {
    let source_file = merged.string(b"MPI")?;
    let description = merged.string(b"operation of NCCL's")?;
    let mut first = None;
    for (canonical, name, role) in scalasca::all_regions() {
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

fn define_communicator(merged: &mut MergedDefinitions, communicator: &Communicator) -> Result<CommRef> {
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
) -> Result<WrittenArchive> {
    let mut merged = MergedDefinitions::new(scorep.verbatim.clone());
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
    let chunks = output::chunks(inputs, &merged, &[])?;
    let mut writer = output::begin(inputs, &[], directory, chunks)?;
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
            let own = records(directory, master, |to| Ok(scalasca::write_thread(to, rank, *numbers)?))?;
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

/// An operation: its communicator, and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OperationId {
    Collective {
        communicator: usize,
        number: usize,
    },
    /// The nth message between two ranks of the communicator.
    Message {
        communicator: usize,
        from: u32,
        to: u32,
        number: usize,
    },
}

impl OperationId {
    const fn communicator(self) -> usize {
        match self {
            Self::Collective { communicator, .. } | Self::Message { communicator, .. } => communicator,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OperationPart {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) id: OperationId,
    /// A send waits for no other rank.
    pub(crate) is_send: bool,
}

/// What is to be left out so that the analyser can replay the rest, which has no overlap on a rank and one common
/// order: operations that overlap one of another communicator on some rank, or whose order differs between ranks. The
/// analyser would wait for them forever. `ranks` holds the parts of each rank.
pub(crate) fn left_out(ranks: &[Vec<OperationPart>]) -> BTreeSet<OperationId> {
    let mut left_out = overlapping(ranks);
    let mut parts: BTreeMap<OperationId, usize> = BTreeMap::new();
    let mut queues: Vec<Vec<OperationPart>> = Vec::new();
    for rank in ranks {
        let mut queue: Vec<OperationPart> = rank.iter().filter(|part| !left_out.contains(&part.id)).copied().collect();
        // A rank reaches a collective or a send when it begins, and passes a receive when it ends.
        queue.sort_by_key(|part| match part.id {
            OperationId::Message { .. } if !part.is_send => (part.end, part.id),
            _ => (part.begin, part.id),
        });
        queue.iter().for_each(|part| *parts.entry(part.id).or_default() += 1);
        queue.reverse();
        queues.push(queue);
    }
    let mut arrived: BTreeMap<OperationId, usize> = BTreeMap::new();
    let mut waits: Vec<bool> = vec![false; queues.len()];
    loop {
        let mut has_advanced = false;
        for (queue, waits) in queues.iter_mut().zip(&mut waits) {
            while let Some(part) = queue.last() {
                if !*waits && !left_out.contains(&part.id) {
                    *arrived.entry(part.id).or_default() += 1;
                    *waits = !part.is_send;
                    has_advanced = true;
                }
                let is_done = part.is_send || arrived.get(&part.id) == parts.get(&part.id);
                if !is_done && !left_out.contains(&part.id) {
                    break;
                }
                queue.pop();
                *waits = false;
                has_advanced = true;
            }
        }
        if has_advanced {
            continue;
        }
        // All ranks wait for another one.
        let Some(first) = queues.iter().filter_map(|queue| queue.last()).min() else {
            return left_out;
        };
        left_out.insert(first.id);
    }
}

/// Operations that begin on some rank before one of another communicator has ended.
fn overlapping(ranks: &[Vec<OperationPart>]) -> BTreeSet<OperationId> {
    let mut found = BTreeSet::new();
    for rank in ranks {
        let mut parts = rank.clone();
        parts.sort_unstable();
        let mut before: Option<OperationPart> = None;
        for part in parts {
            match &mut before {
                Some(before) if part.begin <= before.end && part.id.communicator() != before.id.communicator() => {
                    found.insert(part.id);
                }
                Some(before) if part.id.communicator() == before.id.communicator() => {
                    before.end = before.end.max(part.end);
                }
                _ => before = Some(part),
            }
        }
    }
    found
}

pub(crate) type Hosts<'a> = BTreeMap<u32, Host<'a>>;

pub(crate) struct Communicator {
    pub(crate) name: String,
    pub(crate) members: Vec<u32>,
    pub(crate) ranks: Vec<Rank>,
}

pub(crate) fn operations(rank: &Rank) -> usize {
    rank.collectives.len() + rank.sends.len()
}

/// Moves operations between the same MPI collectives in all processes; returns how many have no place.
pub(crate) fn retain(communicator: &mut Communicator, hosts: &Hosts<'_>) -> u64 {
    let Communicator { members, ranks, .. } = communicator;
    let hosts: Vec<&Host<'_>> = members.iter().filter_map(|rank| hosts.get(rank)).collect();
    let before: usize = ranks.iter().map(operations).sum();
    let gaps: Vec<Vec<Option<Gap>>> = hosts
        .iter()
        .zip(&*ranks)
        .map(|(host, rank)| {
            rank.collectives.iter().map(|operation| host.longest_gap(operation.begin, operation.end)).collect()
        })
        .collect();
    let has_room = |number: usize| {
        let at = |gaps: &Vec<Option<Gap>>| gaps.get(number).copied().flatten().map(|gap| gap.collectives);
        let mut all = gaps.iter().map(at);
        let first = all.next().flatten();
        first.is_some() && all.all(|other| other == first)
    };
    for (rank, gaps) in ranks.iter_mut().zip(&gaps) {
        let collectives = std::mem::take(&mut rank.collectives).into_iter().zip(gaps).enumerate();
        rank.collectives = collectives
            .filter_map(|(number, (operation, gap))| {
                let gap = gap.filter(|_| has_room(number))?;
                Some(Operation { begin: gap.begin, end: gap.end, ..operation })
            })
            .collect();
    }
    retain_messages(&hosts, ranks);
    let after: usize = ranks.iter().map(operations).sum();
    (before - after) as u64
}

/// A message: sender, receiver, and index. Sends and receives of two ranks match in order.
type MessageNumber = (u32, u32, usize);

fn retain_ends(ranks: &mut [Rank], mut keep: impl FnMut(MessageNumber, (u32, bool), &mut MessageTimes) -> bool) {
    for (own, rank) in (0..).zip(ranks) {
        for (is_send, list) in [(true, &mut rank.sends), (false, &mut rank.receives)] {
            let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
            list.retain_mut(|end| {
                let number = numbers.entry(end.peer).or_default();
                *number += 1;
                let (from, to) = if is_send { (own, end.peer) } else { (end.peer, own) };
                keep((from, to, *number), (own, is_send), end)
            });
        }
    }
}

/// Keeps messages whose ends both have a place between the same MPI collectives, and moves them there.
fn retain_messages(hosts: &[&Host<'_>], ranks: &mut [Rank]) {
    let gap = |own: u32, end: &MessageTimes| hosts.get(usize::try_from(own).ok()?)?.longest_gap(end.begin, end.end);
    let mut gaps: BTreeMap<MessageNumber, Vec<Option<Gap>>> = BTreeMap::new();
    retain_ends(ranks, |key, (own, _), end| {
        gaps.entry(key).or_default().push(gap(own, end));
        true
    });
    retain_ends(ranks, |key, (own, _), end| {
        let found = gaps.get(&key).map(Vec::as_slice);
        let has_room = matches!(found, Some([Some(a), Some(b)]) if a.collectives == b.collectives);
        let gap = gap(own, end).filter(|_| has_room);
        if let Some(gap) = gap {
            (end.begin, end.end) = (gap.begin, gap.end);
        }
        gap.is_some()
    });
}

/// Keeps operations that can be replayed along with other communicators'. Returns, by communicator, how many cannot.
pub(crate) fn retain_replayable(communicators: &mut [Communicator]) -> Vec<(String, u64)> {
    let mut parts: BTreeMap<u32, Vec<OperationPart>> = BTreeMap::new();
    for (communicator, entry) in communicators.iter_mut().enumerate() {
        for (rank, member) in entry.ranks.iter().zip(&entry.members) {
            let collectives = rank.collectives.iter().enumerate().map(|(number, operation)| OperationPart {
                begin: operation.begin,
                end: operation.end,
                id: OperationId::Collective { communicator, number },
                is_send: false,
            });
            parts.entry(*member).or_default().extend(collectives);
        }
        let members = &entry.members;
        retain_ends(&mut entry.ranks, |(from, to, number), (own, is_send), end| {
            let member = usize::try_from(own).ok().and_then(|own| members.get(own));
            let id = OperationId::Message { communicator, from, to, number };
            let part = OperationPart { begin: end.begin, end: end.end, id, is_send };
            member.map(|member| parts.entry(*member).or_default().push(part)).is_some()
        });
    }
    let left_out = left_out(&parts.into_values().collect::<Vec<_>>());
    let mut numbers = Vec::new();
    for (communicator, entry) in communicators.iter_mut().enumerate() {
        let before: usize = entry.ranks.iter().map(operations).sum();
        for rank in &mut entry.ranks {
            let mut number = 0..;
            rank.collectives.retain(|_| {
                let id = number.next().map(|number| OperationId::Collective { communicator, number });
                id.is_some_and(|id| !left_out.contains(&id))
            });
        }
        retain_ends(&mut entry.ranks, |(from, to, number), _, _| {
            !left_out.contains(&OperationId::Message { communicator, from, to, number })
        });
        let after: usize = entry.ranks.iter().map(operations).sum();
        if before > after {
            numbers.push((entry.name.clone(), (before - after) as u64));
        }
    }
    numbers
}

/// The first thread of a process, with the gaps in it that can hold NCCL operations. The analyser reads the MPI calls
/// of no other thread.
pub(crate) struct Host<'a> {
    pub(crate) process: &'a Process,
    pub(crate) records: EventRecords,
    states: Vec<State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// Whether the thread is in a region, but not in an MPI region.
    has_room: bool,
    /// The number of MPI collectives that the thread has ended.
    collectives: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) collectives: usize,
}

impl<'a> Host<'a> {
    pub(crate) fn read(scorep: &ScoreP, process: &'a Process) -> Result<Self> {
        let records = scorep.records(process.master)?;
        let local = scorep.archive.local_definitions(process.master).context("cannot read local definitions")?;
        let regions = local.mapping_tables.get(&MappingType::Region);
        let mpi_regions: BTreeSet<RegionRef> = scorep
            .definitions
            .regions
            .iter()
            .filter(|(_, region)| region.paradigm == Paradigm::Mpi)
            .map(|(reference, _)| *reference)
            .gather();
        let is_mpi = |region: RegionRef| {
            let global = regions.and_then(|table| table.pairs.get(&region.get().into())).copied();
            // A number that does not fit is not a region.
            let global = global.map_or(region.get(), |global| u32::try_from(global).unwrap_or(u32::MAX));
            mpi_regions.contains(&RegionRef::new(global))
        };
        let mut open: Vec<bool> = Vec::new();
        let mut collectives = 0;
        let mut states = Vec::with_capacity(records.as_slice().len());
        for record in records.as_slice() {
            match record.kind {
                RecordKind::Enter(region) => open.push(is_mpi(region)),
                RecordKind::Leave(_) => {
                    let _left = open.pop();
                }
                RecordKind::MpiCollectiveEnd => collectives += 1,
                _ => {}
            }
            states.push(State { has_room: !open.is_empty() && !open.contains(&true), collectives });
        }
        Ok(Self { process, records, states })
    }

    /// The place for an operation: the longest period of its run in which the thread recorded nothing and was outside
    /// MPI calls. There it waits for the operation. (NCCL may report the end after the thread continued.)
    pub(crate) fn longest_gap(&self, begin: u64, end: u64) -> Option<Gap> {
        let all = self.records.as_slice();
        let first = all.partition_point(|record| record.time <= begin).saturating_sub(1);
        let rest = all.get(first..)?.iter().zip(self.states.get(first..)?);
        let ends = all.iter().map(|record| record.time).skip(first + 1).chain([u64::MAX]);
        let mut longest: Option<Gap> = None;
        for ((record, state), next) in rest.zip(ends).take_while(|((record, _), _)| record.time < end) {
            let gap =
                Gap { begin: begin.max(record.time + 1).min(next), end: end.min(next), collectives: state.collectives };
            let length = |gap: &Gap| gap.end.saturating_sub(gap.begin);
            if state.has_room && longest.as_ref().is_none_or(|longest| length(&gap) > length(longest)) {
                longest = Some(gap);
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collective(begin: u64, end: u64, communicator: usize, number: usize) -> OperationPart {
        OperationPart { begin, end, id: OperationId::Collective { communicator, number }, is_send: false }
    }

    fn message(begin: u64, end: u64, is_send: bool) -> OperationPart {
        OperationPart { begin, end, id: OperationId::Message { communicator: 1, from: 0, to: 1, number: 0 }, is_send }
    }

    #[test]
    fn what_comes_in_one_order_stays() {
        let rank = vec![collective(0, 10, 0, 0), collective(20, 30, 1, 0), collective(40, 50, 0, 1)];
        assert!(left_out(&[rank.clone(), rank.clone(), rank[..1].to_vec()]).is_empty());
        let ranks = [
            vec![message(12, 14, true), collective(20, 30, 0, 0)],
            vec![message(2, 15, false), collective(20, 30, 0, 0)],
        ];
        assert!(left_out(&ranks).is_empty());
    }

    #[test]
    fn overlapping_and_crossing_operations_are_left_out() {
        let overlapping = vec![collective(0, 10, 0, 0), collective(5, 30, 1, 0), collective(30, 50, 0, 1)];
        let apart = vec![collective(0, 10, 0, 0), collective(15, 30, 1, 0), collective(40, 50, 0, 1)];
        let second_operations = BTreeSet::from([OperationId::Collective { communicator: 1, number: 0 }]);
        assert_eq!(left_out(&[apart.clone(), overlapping]), second_operations);
        // The second rank begins with the other communicator.
        let crossing = vec![collective(15, 20, 0, 0), collective(1, 2, 1, 0), collective(40, 50, 0, 1)];
        assert_eq!(left_out(&[apart, crossing]).len(), 1);
        // A receive before a collective, of a message that is sent after it.
        let ranks =
            [vec![collective(0, 10, 0, 0), message(12, 14, true)], vec![message(1, 5, false), collective(7, 10, 0, 0)]];
        assert_eq!(left_out(&ranks).len(), 1);
    }
}
