//! Which communicator windows of steps count: of those that live the one with the most ranks, of several the first one.
//! Where `init` does not say (v1 to v3), the one whose collectives were first.

use super::Switch;
use super::counting;
use nccl_events::CommInit;
use nccl_events::id::ContextId;

/// The communicators that live.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    live: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    context: u64,
    ranks: i32,
    /// What the ranks of a communicator have in common; `None` where `init` does not say.
    identity: Option<(u64, i32, u32)>,
}

/// Contexts, and what is to be recorded of them.
pub(crate) type Turns = Vec<(u64, Switch)>;

impl Ledger {
    /// A communicator begins: the `repetition`th with its id.
    pub(crate) fn begin(
        &mut self,
        context: ContextId,
        repetition: u32,
        comm: &CommInit<'_>,
    ) -> Turns {
        counting::begin_rank(context);
        self.live.push(Member {
            context: context.get(),
            ranks: comm.ranks,
            identity: (comm.comm_id != 0).then_some((comm.comm_id, comm.ranks, repetition)),
        });
        self.elect()
    }

    /// A communicator ends.
    pub(crate) fn end(&mut self, context: u64) -> Turns {
        self.live.retain(|member| member.context != context);
        counting::end_rank(context);
        self.elect()
    }

    fn elect(&self) -> Turns {
        // `max_by_key` gives the last of equals.
        let Some(lead) = self.live.iter().rev().max_by_key(|member| member.ranks) else {
            return Turns::new();
        };
        counting::settle_lead(self.live.iter().map(|member| member.context));
        let turn = |member: &Member| {
            let is_counted = match (member.identity, lead.identity) {
                (None, None) => counting::may_lead(member.context),
                (ours, theirs) => ours == theirs,
            };
            Some((member.context, counting::count(member.context, is_counted)?))
        };
        self.live.iter().filter_map(turn).collect()
    }
}
