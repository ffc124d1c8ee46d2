//! A process's ranks in a snapshot.

use journal::reader::Symbols;
use nccl_events::ids::index;

use super::open::OpenEvents;
use crate::snapshot::Rank;

impl OpenEvents {
    pub(crate) fn ranks(&self, process: usize, symbols: &Symbols) -> Vec<Rank> {
        let realtime_ns = |ticks: u64| self.clock.realtime_ns(self.clock.ns(ticks));
        let ranks = self.contexts.all.iter().filter_map(|context| {
            let member = context.member?;
            let started = context.queue.iter().chain(context.coming.iter().map(|(_, id)| id)).filter_map(|id| {
                let operation = self.operations.get(*id)?;
                let is_at_capture = operation.call.is_some_and(|call| call.is_at_capture);
                operation.started.filter(|_| !operation.has_ended() && !is_at_capture)
            });
            let (mut open, mut oldest) = (0, None);
            for started in started {
                open += 1;
                oldest = match oldest {
                    Some((since, _)) if since <= started.start => oldest,
                    _ => Some((started.start, started.func)),
                };
            }
            Some(Rank {
                communicator: index(member.communicator),
                rank: member.rank,
                process,
                is_finalized: context.is_finalized,
                last_event_ns: (context.last > 0).then(|| realtime_ns(context.last)),
                open,
                oldest: oldest.map(|(since, func)| (format!("nccl{}", symbols.text(func)), realtime_ns(since))),
                last: 0,
                caused_waiting_ns: 0,
            })
        });
        ranks.collect()
    }
}
