//! From what is in memory to the manifest.

use std::path::Path;

use super::calls::RankDigest;
use super::files::part_name;
use super::manifest::{
    AttributeDefinition, CommDefinition, CommIdentity, Connection, GpuClockDefinition,
    GpuDefinition, LocationDefinition, LocationKind, LocationOwner, Manifest, RegionDefinition,
    SwitchDefinition, WindowDefinition,
};
use super::write::Recording;
use crate::clocks::anchors;
use crate::clocks::gpu::GpuCalibration;
use crate::emit::attributes::Attribute;
use crate::emit::definitions::{RegionText, Tables};
use crate::links::comm::{Comms, Identity};
use crate::links::pxn;
use crate::part::traffic::rows::Traffic;
use crate::tables::assembly::Assembly;
use crate::tables::counts::Counts;
use crate::tables::place::{NOWHERE, index};
use crate::timeline::canvas::Scene;
use crate::timeline::draw::Timeline;
use crate::timeline::lanes::{LaneKey, Owner};
use crate::timeline::measurement::SwitchAt;
use journal::part::scorep::ScorepReport;
use journal::reader::{Outcome, Symbols};
use nccl_events::control::Cause;

/// What the manifest of a part is made of.
pub(super) struct Builder<'a> {
    pub(super) part: &'a Path,
    pub(super) recording: &'a Recording,
    pub(super) timeline: &'a Timeline,
    pub(super) scene: &'a Scene<'a>,
    pub(super) tables: &'a Tables,
    pub(super) is_provisional: bool,
}

impl Builder<'_> {
    /// The manifest of a part with these locations.
    pub(super) fn manifest(
        &self,
        locations: Vec<LocationDefinition>,
        collectives: Vec<RankDigest>,
        counts: Counts,
    ) -> Manifest {
        let Recording {
            assembly,
            outcome,
            clock,
            ..
        } = self.recording;
        let Timeline {
            comms, correlation, ..
        } = self.timeline;
        let not_kept = &assembly.not_kept;
        let complete_since_ns =
            (not_kept.segments > 0).then(|| clock.nanoseconds(not_kept.since_ticks));
        Manifest {
            part: part_name(self.part),
            process: self.recording.process.clone(),
            process_problem: self.recording.process_problem.clone(),
            options: self.scene.options,
            clock: clock.quality.clone(),
            anchors: anchors::of(&assembly.clock_pairs),
            span_ns: span(&locations, assembly.span),
            strings: self.tables.strings.clone(),
            attributes: Attribute::ALL.iter().copied().map(attribute).collect(),
            regions: self.tables.regions.iter().map(region).collect(),
            comms: communicators(comms, &outcome.symbols),
            gpus: gpus(comms),
            locations,
            gpu_work: correlation.gpu.definition(&outcome.symbols),
            gpu_clocks: gpu_clocks(self.timeline),
            collectives,
            traffic: Traffic::of(self.scene),
            exported_ranks: pxn::exported(assembly, comms),
            remote_work: pxn::work(assembly, correlation),
            remote_workers: self.recording.remote_workers.clone(),
            remote_operations: pxn::counted(assembly, correlation),
            counts,
            complete_since_ns,
            switches: assembly
                .switches
                .iter()
                .map(|at| switch(at, assembly))
                .collect(),
            scorep: ScorepReport::read(self.part),
            records: outcome.records,
            // Of a process that records on, counters and records are not read at one moment.
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
        let file = problem.path.file_name().unwrap_or(problem.path.as_os_str());
        format!(
            "{} at byte {}: {}; {} bytes left out",
            file.to_string_lossy(),
            problem.offset,
            problem.reason,
            problem.lost_bytes
        )
    });
    lines.collect()
}

fn attribute(attribute: Attribute) -> AttributeDefinition {
    AttributeDefinition {
        name: attribute.name().to_owned(),
        value_type: attribute.value_type().raw(),
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
        group: facts.group.to_owned(),
        canonical_name: text.canonical.clone(),
    }
}

fn communicators(comms: &Comms, symbols: &Symbols) -> Vec<CommDefinition> {
    let definitions = comms.comms.iter().map(|comm| CommDefinition {
        identity: match comm.identity {
            Identity::Given => CommIdentity::Id,
            Identity::Hash => CommIdentity::Hash,
            Identity::Context => CommIdentity::Part,
        },
        id: comm.comm_id,
        ranks: comm.ranks,
        repetition: comm.repetition,
        ranks_seen: comm.ranks_seen,
        name: symbols.text(comm.name).to_owned(),
        nodes: comm.nodes,
    });
    definitions.collect()
}

fn gpus(comms: &Comms) -> Vec<GpuDefinition> {
    let definitions = comms.gpus.iter().map(|gpu| GpuDefinition {
        comm: gpu.comm,
        rank: gpu.rank,
        in_largest: gpu.in_largest,
        ordinal: gpu.ordinal,
    });
    definitions.collect()
}

/// The clocks of the GPUs that gave stamps.
fn gpu_clocks(timeline: &Timeline) -> Vec<GpuClockDefinition> {
    let clocks = timeline.comms.members.iter().zip(&timeline.gpu_clocks);
    let clocks = clocks.map(|(member, clock)| GpuClockDefinition {
        comm: member.comm,
        rank: member.rank,
        clock: clock.quality.clone(),
    });
    clocks
        .filter(|definition| definition.clock.calibration != GpuCalibration::None)
        .collect()
}

fn switch(at: &SwitchAt, assembly: &Assembly) -> SwitchDefinition {
    let turn = match at.switch.cause {
        Cause::Window(turn) if at.context != 0 => Some(turn),
        _ => None,
    };
    let context = assembly.find_context(at.context);
    let context = context.and_then(|at| assembly.contexts.get(index(at)));
    SwitchDefinition {
        ns: at.time,
        is_on: at.switch.after.is_on,
        events: at.switch.after.events,
        by_signal: at.switch.cause == Cause::Signal,
        window: turn
            .and_then(|turn| turn.window)
            .map(|span| WindowDefinition {
                first: span.first,
                last: span.last,
                rank: context.map_or(-1, |context| context.comm.rank),
            }),
        breaks_order: at.breaks_order(),
    }
}

/// What a location is about.
pub(super) fn location(scene: &Scene<'_>, threads: &[u32], key: LaneKey) -> LocationKind {
    let connection = |of, channel, send, peer| Connection {
        owner: owner(scene, of),
        channel,
        send,
        peer,
    };
    match key {
        LaneKey::Thread(number) => {
            let thread = threads
                .get(index(number))
                .and_then(|&thread| scene.assembly.threads.get(index(thread)));
            LocationKind::Thread {
                thread_id: thread.map_or(0, |thread| thread.thread_id),
                name: thread.map(|thread| thread.name.clone()).unwrap_or_default(),
                is_callback: thread
                    .is_some_and(|thread| scene.callback_threads.contains(&thread.key())),
            }
        }
        LaneKey::Proxy(thread) => {
            let thread = scene.assembly.threads.get(index(thread));
            let thread_id = thread.map_or(0, |thread| thread.thread_id);
            LocationKind::Proxy { thread_id }
        }
        LaneKey::Communicator(context) => {
            let member = scene.comms.member(context);
            LocationKind::Communicator {
                comm: member.map_or(0, |member| member.comm),
                rank: member.map_or(0, |member| member.rank),
                gpu: member.map_or(0, |member| member.gpu),
            }
        }
        LaneKey::Stream(row) => LocationKind::Stream {
            gpu: scene.comms.gpu(row.ordinal).unwrap_or(NOWHERE),
            context: row.context,
            stream: row.stream,
            is_ambiguous: scene.correlation.gpu.is_ambiguous(row),
        },
        LaneKey::Channel(of, channel) => LocationKind::Channel {
            owner: owner(scene, of),
            channel,
        },
        LaneKey::Net(of, channel, send, peer) => {
            LocationKind::Net(connection(of, channel, send, peer))
        }
        LaneKey::Plugin(of, channel, send, peer, slot) => LocationKind::Plugin {
            connection: connection(of, channel, send, peer),
            slot,
        },
        LaneKey::Step(of, channel, send, peer, slot) => LocationKind::Step {
            connection: connection(of, channel, send, peer),
            slot,
        },
    }
}

fn owner(scene: &Scene<'_>, owner: Owner) -> LocationOwner {
    match owner {
        Owner::Context(context) => match scene.comms.member(context) {
            Some(member) => LocationOwner::Rank {
                comm: member.comm,
                rank: member.rank,
                gpu: member.gpu,
            },
            None => LocationOwner::Foreign {
                context: 0,
                own: false,
            },
        },
        Owner::Foreign(context) => LocationOwner::Foreign {
            context,
            own: scene.assembly.is_own_context(context)
                && scene.assembly.find_context(context).is_none(),
        },
    }
}
