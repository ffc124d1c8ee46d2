//! Builds the manifest from a process's data in memory.

use std::collections::BTreeSet;
use std::path::Path;

use super::calls::RankDigest;
use super::manifest::{
    AttributeDefinition, Connection, Format, GpuClockDefinition, LocationDefinition, LocationKind, LocationOwner,
    Manifest, RegionDefinition, StepRangeDefinition, SwitchDefinition, read_late,
};
use super::recording::Recording;
use crate::part::traffic::rows::Traffic;

use clocks::gpu::GpuCalibration;
use clocks::ticks;
use job::communicators::CommDefinition;
use journal::part::ChainReport;
use journal::part::ScorepReport;
use journal::part::part_name;
use journal::reader::{Outcome, Problem};
use nccl_events::Cause;
use nccl_events::ids::index;
use nccl_events::schema::attribute::AttributeId;
use nccl_events::schema::{Counts, Type};
use nccl_events::sort::Gather;
use otf2::AttributeType;
use process_model::emit::definitions::{Definitions, RegionText};
use process_model::links::pxn;
use process_model::timeline::location::{LocationKey, Owner};
use process_model::timeline::model::ProcessModel;
use tables::Tables;
use tables::communicators::impossible_ranks;
use tables::switches::SwitchAt;

pub(super) struct Builder<'a> {
    pub(super) part: &'a Path,
    pub(super) recording: &'a Recording,
    pub(super) model: &'a ProcessModel<'a>,
    pub(super) definitions: &'a Definitions,
    pub(super) is_provisional: bool,
}

impl Builder<'_> {
    pub(super) fn manifest(
        &self,
        locations: Vec<LocationDefinition>,
        collectives: Vec<RankDigest>,
        counts: Counts,
    ) -> Manifest {
        let Recording { tables, outcome, clock, .. } = self.recording;
        let ProcessModel { comms, links, .. } = self.model;
        let removed = &tables.removed;
        let complete_since_ns = (removed.segments > 0).then(|| clock.nanoseconds(removed.since_ticks));
        Manifest {
            format: Format::default(),
            has_lost_events: false,
            late_problem: read_late(self.part).1,
            part: part_name(self.part),
            process: self.recording.process.clone(),
            process_problem: self.recording.process_problem.clone(),
            options: self.model.options,
            event_chunk_bytes: otf2::EVENT_CHUNK_BYTES,
            clock: clock.quality.clone(),
            anchors: ticks::of(&tables.clock_pairs),
            span_ns: span(&locations, tables.span),
            strings: self.definitions.strings.clone().into(),
            attributes: AttributeId::ALL.iter().copied().map(attribute).collect(),
            regions: self.definitions.regions.iter().map(region).collect(),
            comms: comms.comms.iter().map(|comm| CommDefinition::of(comm, &outcome.symbols)).collect(),
            impossible_ranks: impossible_ranks(tables).collect(),
            parents: parents(self.model),
            gpus: comms.gpus.clone(),
            locations,
            gpu_work: links.gpu.definition(&outcome.symbols),
            gpu_clocks: gpu_clocks(self.model),
            collectives,
            traffic: Traffic::of(self.model),
            exported_ranks: pxn::exported(tables, comms),
            remote_work: pxn::work(tables, &links.transfers),
            remote_workers: self.recording.remote_workers.clone(),
            remote_operations: links.remote_operations,
            counts,
            complete_since_ns,
            switches: tables.switches.iter().map(|at| switch(at, tables)).collect(),
            scorep: ScorepReport::read(self.part),
            chain: ChainReport::read(self.part),
            records: outcome.records,
            // While a process records, its counters and records cannot be read at the same moment.
            started: (!self.is_provisional).then_some(outcome.started),
            problems: problems(outcome),
        }
    }
}

fn span(locations: &[LocationDefinition], recorded: (u64, u64)) -> (u64, u64) {
    let used = || locations.iter().filter(|location| location.events > 0);
    let first = used().map(|location| location.first_ns).min();
    let last = used().map(|location| location.last_ns).max();
    match (first, last) {
        (Some(first), Some(last)) => (first, last),
        _ => (recorded.0, recorded.0),
    }
}

fn problems(outcome: &Outcome) -> Vec<String> {
    let lines = outcome.problems.iter().map(|problem| {
        let path = problem.path.file_name().unwrap_or(problem.path.as_os_str()).into();
        Problem { path, ..problem.clone() }.to_string()
    });
    lines.collect()
}

fn attribute(attribute: AttributeId) -> AttributeDefinition {
    let value_type = match attribute.value_type() {
        Type::U8 => AttributeType::U8,
        Type::U32 => AttributeType::U32,
        Type::U64 => AttributeType::U64,
        Type::I32 => AttributeType::I32,
        Type::I64 => AttributeType::I64,
        Type::F64 => AttributeType::F64,
        Type::String => AttributeType::String,
        Type::Location => AttributeType::Location,
    };
    AttributeDefinition {
        name: attribute.name().to_owned(),
        value_type: value_type.raw(),
        description: attribute.description().to_owned(),
    }
}

fn region(text: &RegionText) -> RegionDefinition {
    let facts = text.facts();
    RegionDefinition {
        name: text.name.clone(),
        description: facts.description.to_owned(),
        role: facts.role.raw(),
        paradigm: facts.paradigm.raw(),
        group: facts.group,
        canonical_name: text.canonical.clone(),
    }
}

/// Communicators and the ones that they were split from or grown of, as far as the process has both.
fn parents(model: &ProcessModel<'_>) -> Vec<(u32, u32)> {
    let comms = &model.comms;
    let with_id = |id: u64| {
        let mut such = (0..).zip(&comms.comms).filter(|(_, comm)| comm.comm_id == id && id != 0);
        let first = such.next().map(|(number, _)| number);
        // Communicators of different sizes can have one id.
        first.filter(|_| such.next().is_none())
    };
    let parents = model.links.ranges.parents(model.tables).filter_map(|(context, id, parent)| {
        let member = context.and_then(|context| comms.member(context));
        Some((member.map_or_else(|| with_id(id), |member| Some(member.comm))?, with_id(parent)?))
    });
    let parents: BTreeSet<(u32, u32)> = parents.gather();
    parents.into_iter().collect()
}

fn gpu_clocks(model: &ProcessModel<'_>) -> Vec<GpuClockDefinition> {
    let clocks = model.comms.members.iter().zip(&model.gpu_clocks).map(|(member, clock)| GpuClockDefinition {
        comm: member.comm,
        rank: member.rank,
        clock: clock.quality.clone(),
    });
    clocks.filter(|definition| definition.clock.calibration != GpuCalibration::None).collect()
}

fn switch(at: &SwitchAt, tables: &Tables) -> SwitchDefinition {
    let of_steps = match at.switch.cause {
        Cause::Steps(it) if at.context != 0 => Some(it),
        _ => None,
    };
    let context = tables.find_context(at.context).and_then(|at| tables.contexts.get(index(at)));
    SwitchDefinition {
        ns: at.time,
        is_on: at.switch.after.is_on,
        events: at.switch.after.events,
        by_signal: at.switch.cause == Cause::Signal,
        steps: of_steps.and_then(|it| Some((it.range?, it.is_named))).map(|(span, is_named)| StepRangeDefinition {
            is_named,
            first: span.first,
            last: span.last,
            rank: context.map_or(-1, |context| context.comm.rank),
        }),
        breaks_order: at.breaks_order(),
    }
}

pub(super) fn location(model: &ProcessModel<'_>, threads: &[u32], key: LocationKey) -> LocationKind {
    let connection = |of, channel, send, peer| Connection { owner: owner(model, of), channel, send, peer };
    match key {
        LocationKey::Thread(number) => {
            let thread = threads.get(index(number)).and_then(|&thread| model.tables.threads.get(index(thread)));
            LocationKind::Thread {
                thread_id: thread.map_or(0, |thread| thread.thread_id),
                name: thread.map(|thread| thread.name.clone()).unwrap_or_default(),
                is_callback: thread.is_some_and(|thread| model.callback_threads.contains(&thread.key())),
            }
        }
        LocationKey::Proxy(thread) => {
            let thread_id = model.tables.threads.get(index(thread)).map_or(0, |thread| thread.thread_id);
            LocationKind::Proxy { thread_id }
        }
        LocationKey::Communicator(context) => {
            let member = model.comms.member(context);
            LocationKind::Communicator {
                comm: member.map_or(0, |member| member.comm),
                rank: member.map_or(0, |member| member.rank),
                gpu: member.map_or(0, |member| member.gpu),
            }
        }
        LocationKey::Stream(row) => LocationKind::Stream {
            gpu: model.comms.gpu(row.ordinal),
            context: row.context,
            stream: row.stream,
            is_ambiguous: model.links.gpu.is_ambiguous(row),
        },
        LocationKey::Ranges(number) => {
            let domain = model.links.ranges.domains.get(index(number)).map(|&domain| model.symbols.text(domain));
            LocationKind::Ranges { domain: domain.unwrap_or_default().to_owned() }
        }
        LocationKey::Channel(of, channel) => LocationKind::Channel { owner: owner(model, of), channel },
        LocationKey::Net(of, channel, send, peer) => LocationKind::Net(connection(of, channel, send, peer)),
        LocationKey::Plugin(of, channel, send, peer, slot) => {
            LocationKind::Plugin { connection: connection(of, channel, send, peer), slot }
        }
        LocationKey::Step(of, channel, send, peer, slot) => {
            LocationKind::Step { connection: connection(of, channel, send, peer), slot }
        }
    }
}

fn owner(model: &ProcessModel<'_>, owner: Owner) -> LocationOwner {
    match owner {
        Owner::Context(context) => match model.comms.member(context) {
            Some(member) => LocationOwner::Rank { comm: member.comm, rank: member.rank, gpu: member.gpu },
            None => LocationOwner::Foreign { context: 0, own: false },
        },
        Owner::Foreign(context) => LocationOwner::Foreign {
            context,
            own: model.tables.is_own_context(context) && model.tables.find_context(context).is_none(),
        },
    }
}
