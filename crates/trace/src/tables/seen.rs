//! What is noted of each start while it is at hand, so that nobody goes through all operations again for it.

use nccl_events::event;
use rustc_hash::FxHashSet;

use crate::emit::definitions::symbols_in;
use crate::links::replays::is_captured;
use crate::tables::place_set::PlaceSet;
use journal::format::record::Symbol;
use nccl_events::Body;
use nccl_events::Kind;
use nccl_events::Start;

/// Which kind of operation for which context on which thread.
type Caller = (u8, u64, u32);

/// What there was among the starts of a process.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Whether a call was captured into a graph.
    pub(crate) captured: bool,
    symbols: PlaceSet,
    callers: FxHashSet<Caller>,
    streams: FxHashSet<(u64, u64)>,
}

impl Seen {
    /// Notes a start.
    pub(crate) fn note(&mut self, start: &Start<Symbol>, thread: u32) {
        let fields = &start.body;
        let Some(stream) = stream(fields) else {
            return;
        };
        self.symbols
            .extend(symbols_in(fields).map(|symbol| symbol.0));
        self.captured |= is_captured(fields);
        let caller = (fields.kind() as u8, start.context, thread);
        let _is_new = self.callers.insert(caller);
        if stream > LAST_SPECIAL_STREAM {
            let _is_new = self.streams.insert((stream, start.context));
        }
    }

    /// Whether a string was in a field of an operation, beside the name of its function.
    pub(crate) fn has(&self, symbol: Symbol) -> bool {
        self.symbols.contains(symbol.0)
    }

    /// The contexts and threads of operations of some kinds, each pair once for a kind, in no order.
    pub(crate) fn callers(&self, kinds: &[Kind]) -> impl Iterator<Item = (u64, u32)> {
        let callers = self.callers.iter();
        let of_kind = move |&&(kind, ..): &&Caller| kinds.iter().any(|&one| one as u8 == kind);
        callers
            .filter(of_kind)
            .map(|&(_, context, thread)| (context, thread))
    }

    /// Streams that calls and launches named, with contexts, in no order.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (u64, u64)> {
        self.streams.iter().copied()
    }
}

/// The highest handle that CUDA gives a special meaning: 0, `cudaStreamLegacy`, `cudaStreamPerThread`.
const LAST_SPECIAL_STREAM: u64 = 2;

/// The stream that a call or launch names, 0 for what threads do without one; `None` for what the proxy does.
const fn stream(fields: &Body<Symbol>) -> Option<u64> {
    match *fields {
        Body::CollApi(event::CollApi { stream, .. })
        | Body::P2pApi(event::P2pApi { stream, .. })
        | Body::KernelLaunch(event::KernelLaunch { stream }) => Some(stream),
        Body::GroupApi(event::GroupApi { .. })
        | Body::Coll(event::Coll { .. })
        | Body::P2p(event::P2p { .. })
        | Body::CeColl(event::CeColl { .. }) => Some(0),
        _ => None,
    }
}
