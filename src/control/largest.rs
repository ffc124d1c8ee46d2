//! Chooses the communicator that step ranges count: the living one with the most ranks, the first among equals. If
//! `init` gives no number of ranks and no id (v1 to v3), the communicator with the first collective.

use super::steps::STEPS;
use nccl_events::CommInit;
use nccl_events::Switch;
use nccl_events::ids::ContextId;

#[derive(Debug, Default)]
pub(crate) struct LargestCommunicator {
    live: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    context: u64,
    /// 0 if unknown.
    ranks: u32,
    /// Equal on all ranks of a communicator; `None` if `init` gives no id.
    identity: Option<(u64, i32, u32)>,
}

pub(crate) type Switches = Vec<(u64, Switch)>;

impl LargestCommunicator {
    /// A communicator begins, the `repetition`th with its id.
    pub(crate) fn begin(&mut self, context: ContextId, repetition: u32, comm: &CommInit<'_>) -> Switches {
        STEPS.begin_rank(context);
        self.live.push(Member {
            context: context.get(),
            ranks: CommInit::possible(comm.rank, comm.ranks).map_or(0, |(_, ranks)| ranks),
            identity: (comm.comm_id != 0).then_some((comm.comm_id, comm.ranks, repetition)),
        });
        self.choose()
    }

    pub(crate) fn end(&mut self, context: u64) -> Switches {
        self.live.retain(|member| member.context != context);
        STEPS.end_rank(context);
        self.choose()
    }

    fn choose(&self) -> Switches {
        // Reversed, because `max_by_key` returns the last of equals.
        let Some(largest) = self.live.iter().rev().max_by_key(|member| member.ranks) else {
            return Switches::new();
        };
        STEPS.choose_hash(self.live.iter().map(|member| member.context));
        let switch = |member: &Member| {
            let is_counted = match (member.identity, largest.identity) {
                (None, None) => STEPS.may_count_rank(member.context),
                (ours, theirs) => ours == theirs,
            };
            Some((member.context, STEPS.count_rank(member.context, is_counted)?))
        };
        self.live.iter().filter_map(switch).collect()
    }
}
