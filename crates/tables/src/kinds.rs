//! The tables: one line for each kind of event, with the states whose times are kept.

use super::contexts::ContextName;
use super::event::{Event, Fields, Head};
use super::row::Row;
use super::states::{NoStates, StateTimes, States};
use clocks::ticks::ClockReader;
use journal::format::Symbol;
use nccl_events::event;
use nccl_events::{Body, Kind, state};

/// The fields of a kind that has a table.
pub trait InTable: Fields {
    fn table(events: &Events) -> &[Event<Self>];
    fn table_mut(events: &mut Events) -> &mut Vec<Event<Self>>;
    /// Converts the row to a row of any kind.
    fn any(row: Row<Self>) -> EventRow;
    /// The row, if it is of this kind.
    fn of(row: EventRow) -> Option<Row<Self>>;
}

macro_rules! tables {
    ($($name:ident $table:ident: $fields:ty, $states:ty $([$($state:ident),*])?;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "the kinds are NCCL's")]
        pub enum EventRow {
            $($name(Row<$fields>),)*
        }

        #[derive(Debug, Default)]
        #[expect(missing_docs, reason = "the kinds are NCCL's")]
        pub struct Events {
            $(pub $table: Vec<Event<$fields>>,)*
        }

        $(impl Fields for $fields {
            const KIND: Kind = Kind::$name;
            const STATES: &'static [u32] = &[$($(state::$state),*)?];
            type States = $states;
        }

        impl InTable for $fields {
            #[inline]
            fn table(events: &Events) -> &[Event<Self>] {
                &events.$table
            }

            #[inline]
            fn table_mut(events: &mut Events) -> &mut Vec<Event<Self>> {
                &mut events.$table
            }

            #[inline]
            fn any(row: Row<Self>) -> EventRow {
                EventRow::$name(row)
            }

            #[inline]
            fn of(row: EventRow) -> Option<Row<Self>> {
                match row {
                    EventRow::$name(row) => Some(row),
                    _ => None,
                }
            }
        })*

        impl EventRow {
            #[inline]
            pub fn as_row<F: InTable>(self) -> Option<Row<F>> {
                F::of(self)
            }

            pub const fn kind(self) -> Kind {
                match self { $(Self::$name(_) => Kind::$name,)* }
            }
        }

        impl Events {
            #[inline]
            pub(super) fn head(&self, row: EventRow) -> Option<&Head> {
                match row { $(EventRow::$name(row) => self.$table.get(row.index()).map(|event| &event.head),)* }
            }

            #[inline]
            pub(super) fn head_mut(&mut self, row: EventRow) -> Option<&mut Head> {
                match row { $(EventRow::$name(row) => self.$table.get_mut(row.index()).map(|event| &mut event.head),)* }
            }

            /// Records that an event entered a state; returns whether it is the first with its number.
            #[inline]
            pub(super) fn enter(
                &mut self,
                row: EventRow,
                (number, ticks): (u32, u64),
                value: impl FnOnce(u64) -> u64,
            ) -> bool {
                match row {
                    $(EventRow::$name(row) => (self.$table.get_mut(row.index()))
                        .is_some_and(|event| event.enter(number, ticks, value)),)*
                }
            }

            /// Adds an event; `None` if its table is full.
            #[inline]
            pub(super) fn push(&mut self, head: Head, rank: i32, body: &Body<Symbol>) -> Option<EventRow> {
                match *body {
                    $(Body::$name(fields) => {
                        let row = Row::new(self.$table.len())?;
                        self.$table.push(Event { head, rank, fields, states: <$states>::default() });
                        Some(EventRow::$name(row))
                    })*
                }
            }

            pub(super) fn body(&self, row: EventRow) -> Option<Body<Symbol>> {
                match row {
                    $(EventRow::$name(row) => self.$table.get(row.index()).map(|event| Body::$name(event.fields)),)*
                }
            }

            /// The row that the next event of a kind will have; `None` if its table is full.
            #[inline]
            pub(super) fn next(&self, kind: Kind) -> Option<EventRow> {
                Some(match kind { $(Kind::$name => EventRow::$name(Row::new(self.$table.len())?),)* })
            }

            /// The heads of all events, kind by kind.
            pub fn heads(&self) -> impl Iterator<Item = &Head> {
                std::iter::empty()$(.chain(self.$table.iter().map(|event| &event.head)))*
            }

            /// The rows of all events, in the order of the journal.
            pub fn in_order(&self) -> Vec<EventRow> {
                let mut rows: Vec<(u32, EventRow)> = Vec::new();
                $(rows.extend(self.$table.iter().enumerate().filter_map(|(at, event)| {
                    Some((event.head.order, EventRow::$name(Row::new(at)?)))
                }));)*
                rows.sort_by_key(|&(order, _)| order);
                rows.into_iter().map(|(_, row)| row).collect()
            }

            /// The last time of any state.
            pub fn last_state(&self) -> Option<u64> {
                [$(self.$table.iter().filter_map(|event| event.states.last()).max(),)*].into_iter().flatten().max()
            }

            pub fn count(&self, kind: Kind) -> usize {
                match kind { $(Kind::$name => self.$table.len(),)* }
            }

            pub(super) fn convert(&mut self, clock: &mut ClockReader<'_>) {
                $(for event in &mut self.$table { event.convert(clock); })*
            }

            /// Sets each event's context, and converts ticks to nanoseconds if there is a clock.
            pub(super) fn name_contexts(
                &mut self,
                name: impl Fn(ContextName) -> ContextName,
                mut clock: Option<ClockReader<'_>>,
            ) {
                $(for event in &mut self.$table {
                    event.head.context = name(event.head.context);
                    if let Some(clock) = &mut clock {
                        event.convert(clock);
                    }
                })*
            }

            pub(super) fn each_head(&self, mut visit: impl FnMut(Kind, &Head)) {
                $(for event in &self.$table { visit(Kind::$name, &event.head); })*
            }
        }
    };
}

tables! {
    Group groups: event::Group, NoStates;
    Coll colls: event::Coll<Symbol>, NoStates;
    P2p p2ps: event::P2p<Symbol>, NoStates;
    ProxyOp proxy_ops: event::ProxyOp, StateTimes<4> [
        PROXY_OP_SEND_POSTED, PROXY_OP_SEND_REM_FIFO_WAIT, PROXY_OP_SEND_TRANSMITTED, PROXY_OP_SEND_DONE,
        PROXY_OP_RECV_POSTED, PROXY_OP_RECV_RECEIVED, PROXY_OP_RECV_TRANSMITTED, PROXY_OP_RECV_DONE,
        PROXY_OP_IN_PROGRESS
    ];
    ProxyStep proxy_steps: event::ProxyStep, StateTimes<3> [
        PROXY_STEP_SEND_GPU_WAIT, PROXY_STEP_SEND_PEER_WAIT, PROXY_STEP_SEND_WAIT,
        PROXY_STEP_RECV_WAIT, PROXY_STEP_RECV_FLUSH_WAIT, PROXY_STEP_RECV_GPU_WAIT
    ];
    ProxyCtrl proxy_ctrls: event::ProxyCtrl, StateTimes<6> [
        PROXY_CTRL_IDLE, PROXY_CTRL_ACTIVE, PROXY_CTRL_SLEEP, PROXY_CTRL_WAKEUP, PROXY_CTRL_APPEND, PROXY_CTRL_APPEND_END
    ];
    KernelCh kernel_chs: event::KernelCh, StateTimes<1> [KERNEL_CH_STOP];
    NetPlugin net_plugins: event::NetPlugin, NoStates;
    GroupApi group_apis: event::GroupApi, StateTimes<2> [GROUP_START_API_STOP, GROUP_END_API_START];
    CollApi coll_apis: event::CollApi<Symbol>, NoStates;
    P2pApi p2p_apis: event::P2pApi<Symbol>, NoStates;
    KernelLaunch kernel_launches: event::KernelLaunch, NoStates;
    CeColl ce_colls: event::CeColl<Symbol>, NoStates;
    CeSync ce_syncs: event::CeSync, NoStates;
    CeBatch ce_batches: event::CeBatch, NoStates;
    KernelPhase kernel_phases: event::KernelPhase<Symbol>, StateTimes<1> [KERNEL_PHASE_STOP];
    Unknown unknowns: event::Unknown, NoStates;
}
