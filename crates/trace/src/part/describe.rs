//! From what is in memory to the words of the sidecar.

use crate::clocks::gpu_clock::GpuCalibration;
use crate::emit::attributes::Attribute;
use crate::emit::definitions::RegionText;
use crate::links::comm::{Comms, Identity};
use crate::part::sidecar::{
    AttributeDefinition, CommDefinition, CommIdentity, GpuClockDefinition, GpuDefinition, LaneKind,
    LaneOwner, RegionDefinition,
};
use crate::tables::place::{NOWHERE, index};
use crate::timeline::canvas::Scene;
use crate::timeline::draw::Timeline;
use crate::timeline::lanes::{LaneKey, Owner};
use journal::reader::Symbols;

pub(crate) fn attribute(attribute: Attribute) -> AttributeDefinition {
    AttributeDefinition {
        name: attribute.name().to_owned(),
        value_type: attribute.value_type().raw(),
        description: attribute.description().to_owned(),
    }
}

pub(crate) fn region(text: &RegionText) -> RegionDefinition {
    let facts = text.facts();
    RegionDefinition {
        name: text.name.clone(),
        description: facts.description.to_owned(),
        role: facts.role.raw(),
        paradigm: facts.paradigm.raw(),
        group: facts.group.to_owned(),
        canonical_name: match text.canonical == text.name {
            true => String::new(),
            false => text.canonical.clone(),
        },
    }
}

pub(crate) fn comms(comms: &Comms, symbols: &Symbols) -> Vec<CommDefinition> {
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

pub(crate) fn gpus(comms: &Comms) -> Vec<GpuDefinition> {
    let definitions = comms.gpus.iter().map(|gpu| GpuDefinition {
        comm: gpu.comm,
        rank: gpu.rank,
        in_largest: gpu.in_largest,
        ordinal: gpu.ordinal,
    });
    definitions.collect()
}

pub(crate) fn lane(scene: &Scene<'_>, threads: &[u32], key: LaneKey) -> LaneKind {
    let owner = |owner| match owner {
        Owner::Context(context) => {
            let member = scene.comms.member(context).copied();
            member.map_or(
                LaneOwner::Foreign {
                    context: 0,
                    own: false,
                },
                |member| LaneOwner::Rank {
                    comm: member.comm,
                    rank: member.rank,
                    gpu: member.gpu,
                },
            )
        }
        Owner::Foreign(context) => LaneOwner::Foreign {
            context,
            own: scene.assembly.is_own_context(context)
                && scene.assembly.find_context(context).is_none(),
        },
    };
    match key {
        LaneKey::Thread(number) => {
            let thread = threads
                .get(index(number))
                .and_then(|&thread| scene.assembly.threads.get(index(thread)));
            LaneKind::Thread {
                thread_id: thread.map_or(0, |thread| thread.thread_id),
                name: thread.map(|thread| thread.name.clone()).unwrap_or_default(),
                is_callback: thread
                    .is_some_and(|thread| scene.callback_threads.contains(&thread.key())),
            }
        }
        LaneKey::Proxy(thread) => {
            let thread = scene.assembly.threads.get(index(thread));
            let thread_id = thread.map_or(0, |thread| thread.thread_id);
            LaneKind::Proxy { thread_id }
        }
        LaneKey::Communicator(context) => {
            let member = scene.comms.member(context);
            LaneKind::Communicator {
                comm: member.map_or(0, |member| member.comm),
                rank: member.map_or(0, |member| member.rank),
                gpu: member.map_or(0, |member| member.gpu),
            }
        }
        LaneKey::Stream(row) => LaneKind::Stream {
            gpu: scene.comms.gpu(row.ordinal).unwrap_or(NOWHERE),
            context: row.context,
            stream: row.stream,
            is_ambiguous: scene.correlation.gpu.is_ambiguous(row),
        },
        LaneKey::Channel(of, channel) => LaneKind::Channel {
            owner: owner(of),
            channel,
        },
        LaneKey::Net(of, channel, send, peer) => LaneKind::Net {
            owner: owner(of),
            channel,
            send,
            peer,
        },
        LaneKey::Plugin(of, channel, send, peer, slot) => LaneKind::Plugin {
            owner: owner(of),
            channel,
            send,
            peer,
            slot,
        },
        LaneKey::Step(of, channel, send, peer, slot) => LaneKind::Step {
            owner: owner(of),
            channel,
            send,
            peer,
            slot,
        },
    }
}

/// The clocks of the GPUs that gave stamps.
pub(crate) fn gpu_clocks(timeline: &Timeline) -> Vec<GpuClockDefinition> {
    let clocks = timeline.comms.members.iter().zip(&timeline.gpu_clocks);
    let clocks = clocks.map(|(member, clock)| GpuClockDefinition {
        comm: member.comm,
        rank: member.rank,
        clock: clock.clone(),
    });
    clocks
        .filter(|definition| definition.clock.calibration != GpuCalibration::None)
        .collect()
}
