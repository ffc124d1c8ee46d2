//! Collectives that NCCL makes of sends and receives: `ncclAlltoAll`, `ncclGather` and `ncclScatter`.
//!
//! ```text
//!  GroupApi, depth 1 ──┬── P2pApi Send ── P2p ─┐
//!   (NCCL's own)       ├── P2pApi Recv ── P2p ─┤  members
//!                      └── …             ── P2p ─┘
//! ```
//!
//! A call of `ncclSend` or `ncclRecv` outside a user's group has its own group, so several in a group of depth 1 come
//! from NCCL. Their order identifies the collective, on N ranks: an all-to-all is a send and a receive N times, the
//! root of a gather one send and N receives, the root of a scatter N sends and one receive. On the other ranks of a
//! gather or scatter NCCL does the same as for a lone `ncclSend` or `ncclRecv`, so these cannot be recognised.

use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::collective::{Function, Pattern};
use nccl_events::event::P2pApi;

/// What all calls of a collective have in common; `C` names a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Same<C> {
    pub context: C,
    pub count: u64,
    pub datatype: Symbol,
    stream: u64,
    is_captured: bool,
}

/// The calls of sends and receives in a group, in order.
#[derive(Clone, Debug)]
pub struct Calls<C> {
    same: Same<C>,
    differ: bool,
    funcs: Vec<Symbol>,
}

fn is_send(func: &str) -> Option<bool> {
    Function::named(func)?.is_send()
}

impl<C: Copy + PartialEq> Calls<C> {
    pub fn new(context: C, call: &P2pApi<Symbol>) -> Self {
        Self { same: Same::of(context, call), differ: false, funcs: vec![call.func] }
    }

    pub fn add(&mut self, context: C, call: &P2pApi<Symbol>) {
        self.differ |= Same::of(context, call) != self.same;
        self.funcs.push(call.func);
    }

    /// What the calls have in common; `None` if they differ.
    pub fn same(&self) -> Option<Same<C>> {
        (!self.differ).then_some(self.same)
    }

    /// The collective that these calls form on this many ranks; `None` if they form none.
    pub fn pattern(&self, ranks: usize, symbols: &Symbols) -> Option<Pattern> {
        let sends: Option<Vec<bool>> = self.funcs.iter().map(|func| is_send(symbols.text(*func))).collect();
        Pattern::of(&sends.filter(|_| !self.differ)?, ranks)
    }
}

impl<C> Same<C> {
    fn of(context: C, call: &P2pApi<Symbol>) -> Self {
        let P2pApi { count, datatype, stream, graph_captured: is_captured, .. } = *call;
        Self { context, count, datatype, stream, is_captured }
    }
}

/// The sends and receives of one execution of a derived collective, on rank `rank` of `ranks`.
#[derive(Clone, Debug)]
pub struct Members {
    rank: i32,
    ranks: usize,
    /// A bit for each peer received from, then a bit for each peer sent to.
    seen: Vec<u64>,
    own: u32,
    others: usize,
    /// Whether an operation was added that does not belong to such a collective.
    has_foreign: bool,
}

impl Members {
    pub fn new(rank: i32, ranks: usize) -> Self {
        Self { rank, ranks, seen: vec![0; (2 * ranks).div_ceil(64)], own: 0, others: 0, has_foreign: false }
    }

    pub fn add(&mut self, func: &str, peer: i32) {
        let at = usize::try_from(peer).ok().filter(|peer| *peer < self.ranks).zip(is_send(func));
        let at = at.map(|(peer, is_send)| peer + if is_send { self.ranks } else { 0 });
        let Some((at, word)) = at.and_then(|at| Some((at, self.seen.get_mut(at / 64)?))) else {
            self.has_foreign = true;
            return;
        };
        self.has_foreign |= *word & (1 << (at % 64)) != 0;
        *word |= 1 << (at % 64);
        match peer == self.rank {
            true => self.own += 1,
            false => self.others += 1,
        }
    }

    /// How many operations are missing; `None` if they do not fit the collective after all.
    pub fn missing(&self, pattern: Pattern) -> Option<u32> {
        let missing = pattern.transfers(self.ranks).checked_sub(self.others).filter(|_| !self.has_foreign)?;
        // NCCL leaves out both ends of an in-place transfer of a rank to itself.
        Some(u32::try_from(missing).unwrap_or(u32::MAX).saturating_add(self.own % 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(members: &[(&str, i32)]) -> Option<u32> {
        let mut all = Members::new(1, 40);
        members.iter().for_each(|(func, peer)| all.add(func, *peer));
        all.missing(Pattern::AlltoAll)
    }

    #[test]
    fn each_rank_is_sent_to_and_received_from_once() {
        let whole: Vec<_> = (0..40).flat_map(|peer| [("Send", peer), ("Recv", peer)]).collect();
        assert_eq!(missing(&whole), Some(0));
        let others: Vec<_> = whole.iter().copied().filter(|(_, peer)| *peer != 1).collect();
        assert_eq!(missing(&others), Some(0), "a rank need not send to itself");
        assert_eq!(missing(&others[..77]), Some(1));
        assert_eq!(missing(&whole[..3]), Some(77), "one end of what it sends to itself, and all but two others");
        for wrong in [("Send", 40), ("Send", -1), ("Recv", 3), ("AllReduce", 1)] {
            assert_eq!(missing(&[&others[..], &[wrong]].concat()), None, "{wrong:?}");
        }
    }
}
