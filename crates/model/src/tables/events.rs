//! The tables: one line for each kind of event, with the states whose times are kept. A table's rows are [`Event`]s, a
//! [`Row`] is a row's number, and a [`ContextName`] the number of its context.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::Deref;

use clocks::ticks::TickClock;
use journal::format::Symbol;
use nccl_events::ids::{index, index_u32};
use nccl_events::{Body, Kind, event, state};
use rustc_hash::FxHashMap;

/// The fields of a kind that has a table.
pub trait InTable: Fields {
    fn table(events: &Events) -> &[Event<Self>];
    fn table_mut(events: &mut Events) -> &mut Vec<Event<Self>>;
    /// Converts the row to a row of any kind.
    fn any(row: Row<Self>) -> EventRow;
    /// The row, if it is of this kind.
    fn downcast(row: EventRow) -> Option<Row<Self>>;
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
            fn downcast(row: EventRow) -> Option<Row<Self>> {
                match row {
                    EventRow::$name(row) => Some(row),
                    _ => None,
                }
            }
        })*

        /// A value for each event, by row.
        #[derive(Debug, Default)]
        pub(crate) struct ByRow<T> {
            $($table: Vec<T>,)*
        }

        impl<T: Copy + Default> ByRow<T> {
            #[inline]
            pub(crate) fn get(&self, row: EventRow) -> T {
                match row { $(EventRow::$name(row) => self.$table.get(row.index()).copied().unwrap_or_default(),)* }
            }

            #[inline]
            pub(crate) fn get_mut(&mut self, row: EventRow) -> Option<&mut T> {
                match row { $(EventRow::$name(row) => self.$table.get_mut(row.index()),)* }
            }

            /// Gives events that were added since the default value.
            pub(crate) fn extend(&mut self, events: &Events) {
                $(self.$table.resize(events.$table.len(), T::default());)*
            }

            pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
                std::iter::empty()$(.chain(&mut self.$table))*
            }
        }

        impl EventRow {
            /// The row of a kind at an index; `None` if the index does not fit.
            #[inline]
            pub(crate) fn new(kind: Kind, at: usize) -> Option<Self> {
                Some(match kind { $(Kind::$name => Self::$name(Row::new(at)?),)* })
            }

            #[inline]
            pub fn as_row<F: InTable>(self) -> Option<Row<F>> {
                F::downcast(self)
            }

            pub const fn kind(self) -> Kind {
                match self { $(Self::$name(_) => Kind::$name,)* }
            }
        }

        impl Events {
            #[inline]
            pub fn head(&self, row: EventRow) -> Option<&Head> {
                match row { $(EventRow::$name(row) => self.$table.get(row.index()).map(|event| &event.head),)* }
            }

            #[inline]
            pub fn head_mut(&mut self, row: EventRow) -> Option<&mut Head> {
                match row { $(EventRow::$name(row) => self.$table.get_mut(row.index()).map(|event| &mut event.head),)* }
            }

            /// Records that an event entered a state; returns whether it is the first with its number.
            #[inline]
            pub fn enter(
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
            pub fn push(&mut self, head: Head, rank: i32, body: &Body<Symbol>) -> Option<EventRow> {
                match *body {
                    $(Body::$name(fields) => {
                        let row = Row::new(self.$table.len())?;
                        self.$table.push(Event { head, rank, fields, states: <$states>::default() });
                        Some(EventRow::$name(row))
                    })*
                }
            }

            pub fn body(&self, row: EventRow) -> Option<Body<Symbol>> {
                match row {
                    $(EventRow::$name(row) => self.$table.get(row.index()).map(|event| Body::$name(event.fields)),)*
                }
            }

            /// The row that the next event of a kind will have; `None` if its table is full.
            #[inline]
            pub fn next(&self, kind: Kind) -> Option<EventRow> {
                EventRow::new(kind, self.count(kind))
            }

            /// Adds a copy of another table's event; `None` if there is none, or the table is full.
            pub(crate) fn copy(&mut self, from: &Self, row: EventRow, order: u32) -> Option<EventRow> {
                match row {
                    $(EventRow::$name(row) => {
                        let mut event = *from.$table.get(row.index())?;
                        event.head.order = order;
                        let row = Row::new(self.$table.len())?;
                        self.$table.push(event);
                        Some(EventRow::$name(row))
                    })*
                }
            }

            /// Removes events and their values where `keep` does not hold for the value.
            pub(crate) fn retain<T>(&mut self, values: &mut ByRow<T>, keep: impl Fn(&T) -> bool) {
                $(
                    let mut each = values.$table.iter();
                    self.$table.retain(|_| each.next().is_none_or(&keep));
                    values.$table.retain(&keep);
                )*
            }

            pub(crate) fn clear(&mut self) {
                $(self.$table.clear();)*
            }

            /// When an event first entered states whose times are kept.
            pub(crate) fn state_times(&self, row: EventRow) -> impl Iterator<Item = u64> {
                let mut times = [None; MOST_STATES];
                match row {
                    $(EventRow::$name(row) => {
                        if let Some(event) = self.$table.get(row.index()) {
                            event.states().zip(&mut times).for_each(|((_, time), place)| *place = Some(time));
                        }
                    })*
                }
                times.into_iter().flatten()
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

            pub fn convert(&mut self, clock: &mut impl TickClock) {
                $(for event in &mut self.$table { event.convert(clock); })*
            }

            /// Sets each event's context, and converts ticks to nanoseconds if there is a clock.
            pub fn name_contexts(
                &mut self,
                name: impl Fn(ContextName) -> ContextName,
                mut clock: Option<impl TickClock>,
            ) {
                $(for event in &mut self.$table {
                    event.head.context = name(event.head.context);
                    if let Some(clock) = &mut clock {
                        event.convert(clock);
                    }
                })*
            }

            pub fn each_head(&self, mut visit: impl FnMut(Kind, &Head)) {
                $(for event in &self.$table { visit(Kind::$name, &event.head); })*
            }

            /// The rows and ids of all events, kind by kind.
            pub(crate) fn each_row(&self, mut visit: impl FnMut(EventRow, u64)) {
                $(for (at, event) in self.$table.iter().enumerate() {
                    if let Some(row) = Row::new(at) {
                        visit(EventRow::$name(row), event.head.id);
                    }
                })*
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

/// The stop of an event that has not stopped.
const OPEN: u64 = u64::MAX;

/// Fields common to events of all kinds.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub id: u64,
    /// The parent's handle as NCCL passed it; 0 if there is none.
    pub parent: u64,
    pub start: u64,
    stop: u64,
    /// Index among the starts of the process, in the order of the journal. Breaks ties.
    pub order: u32,
    /// See [`crate::tables::Tables::context_of`].
    pub context: ContextName,
    /// The thread that started the event: an index in [`crate::tables::Tables::threads`].
    pub thread: u32,
    /// Bit n is set if state n was seen.
    pub states_seen: u32,
}

impl Head {
    pub const fn new((id, parent): (u64, u64), start: u64, order: u32, context: ContextName, thread: u32) -> Self {
        Self { id, parent, start, stop: OPEN, order, context, thread, states_seen: 0 }
    }

    #[inline]
    pub const fn stop(&self) -> Option<u64> {
        if self.stop == OPEN { None } else { Some(self.stop) }
    }

    /// Records a stop; returns whether it is the first, which counts: NCCL 2.28–2.32 stops API events again, later.
    pub fn stop_at(&mut self, ticks: u64) -> bool {
        let is_first = self.stop == OPEN;
        // Ticks of two processors may differ by a few cycles: no event ends before it starts.
        self.stop = self.stop.min(ticks.max(self.start));
        is_first
    }

    /// The index of the event's context in [`crate::tables::Tables::contexts`], if it is a context of this process.
    #[inline]
    pub const fn context_at(&self) -> Option<u32> {
        self.context.at()
    }

    #[inline]
    pub const fn has_state(&self, state: u32) -> bool {
        state < 32 && self.states_seen & (1 << state) != 0
    }

    fn convert(&mut self, clock: &mut impl TickClock) {
        self.start = clock.nanoseconds(self.start);
        if self.stop != OPEN {
            self.stop = clock.nanoseconds(self.stop);
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Event<F: Fields> {
    pub head: Head,
    /// The descriptor's rank. If the context has a rank, that one counts.
    pub rank: i32,
    /// The fields of the descriptor.
    pub fields: F,
    pub states: F::States,
}

impl<F: Fields> Deref for Event<F> {
    type Target = Head;

    #[inline]
    fn deref(&self) -> &Head {
        &self.head
    }
}

impl<F: Fields> Event<F> {
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// When the event first entered a state.
    #[inline]
    pub fn state_time(&self, number: u32) -> Option<u64> {
        let index = F::STATES.iter().position(|&known| known == number)?;
        self.has_state(number).then(|| self.states.time(index))?
    }

    /// The states of the kind that the event entered, each with its first time, sorted by time.
    pub fn states(&self) -> impl Iterator<Item = (u32, u64)> {
        let mut states = [(u64::MAX, 0); MOST_STATES];
        let mut count = 0;
        for (index, &number) in F::STATES.iter().enumerate() {
            let time = self.states.time(index).filter(|_| self.has_state(number));
            if let (Some(time), Some(free)) = (time, states.get_mut(count)) {
                *free = (time, number);
                count += 1;
            }
        }
        if let Some(seen) = states.get_mut(..count) {
            nccl_events::sort::sort_by_key(seen, |&(time, _)| time);
        }
        states.into_iter().take(count).map(|(time, number)| (number, time))
    }

    /// The number that the states carry: bytes (proxy), operations taken (proxy control) or the GPU's time of the stop
    /// (kernel channel and phase); 0 if there is none.
    #[inline]
    pub fn state_value(&self) -> u64 {
        self.states.value()
    }

    /// Records a state; returns whether it is the first with its number. Under back-pressure state 20 comes thousands
    /// of times for one step: the first one counts.
    #[inline]
    pub fn enter(&mut self, number: u32, ticks: u64, value: impl FnOnce(u64) -> u64) -> bool {
        self.states.set_value(value);
        let is_first = !self.has_state(number);
        if is_first {
            if number <= state::LAST {
                self.head.states_seen |= 1 << number;
            }
            if let Some(index) = F::STATES.iter().position(|&known| known == number) {
                self.states.set_time(index, ticks);
            }
        }
        is_first
    }

    #[inline]
    pub fn convert(&mut self, clock: &mut impl TickClock) {
        self.head.convert(clock);
        self.states.convert(clock);
    }
}

/// The largest number of states of any kind.
const MOST_STATES: usize = 9;

pub trait Fields: Copy + 'static {
    const KIND: Kind;
    /// The states whose times are kept, the n-th in slot n modulo the number of slots: exclusive states share one.
    const STATES: &'static [u32];
    type States: States;
}

/// The time of a state that was not seen.
const UNSEEN: u64 = u64::MAX;

/// The times of an event's states, and the number that the states carry.
pub trait States: Clone + Copy + Default + fmt::Debug {
    /// When the state with this index was entered.
    fn time(&self, index: usize) -> Option<u64>;
    fn set_time(&mut self, index: usize, time: u64);
    fn value(&self) -> u64;
    fn set_value(&mut self, change: impl FnOnce(u64) -> u64);
    /// The last of the times.
    fn last(&self) -> Option<u64>;
    fn convert(&mut self, clock: &mut impl TickClock);
}

/// For kinds without kept states.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStates;

impl States for NoStates {
    #[inline]
    fn time(&self, _index: usize) -> Option<u64> {
        None
    }

    #[inline]
    fn set_time(&mut self, _index: usize, _time: u64) {}

    #[inline]
    fn value(&self) -> u64 {
        0
    }

    #[inline]
    fn set_value(&mut self, _change: impl FnOnce(u64) -> u64) {}

    fn last(&self) -> Option<u64> {
        None
    }

    #[inline]
    fn convert(&mut self, _clock: &mut impl TickClock) {}
}

/// `N` time slots for states, and a number.
#[derive(Clone, Copy, Debug)]
pub struct StateTimes<const N: usize> {
    times: [u64; N],
    value: u64,
}

impl<const N: usize> Default for StateTimes<N> {
    #[inline]
    fn default() -> Self {
        Self { times: [UNSEEN; N], value: 0 }
    }
}

impl<const N: usize> States for StateTimes<N> {
    #[inline]
    fn time(&self, index: usize) -> Option<u64> {
        self.times.get(index % N).copied().filter(|&time| time != UNSEEN)
    }

    #[inline]
    fn set_time(&mut self, index: usize, time: u64) {
        if let Some(unseen) = self.times.get_mut(index % N)
            && *unseen == UNSEEN
        {
            *unseen = time;
        }
    }

    #[inline]
    fn value(&self) -> u64 {
        self.value
    }

    #[inline]
    fn set_value(&mut self, change: impl FnOnce(u64) -> u64) {
        self.value = change(self.value);
    }

    fn last(&self) -> Option<u64> {
        self.times.iter().filter(|&&time| time != UNSEEN).max().copied()
    }

    #[inline]
    fn convert(&mut self, clock: &mut impl TickClock) {
        for time in self.times.iter_mut().filter(|time| **time != UNSEEN) {
            *time = clock.nanoseconds(*time);
        }
    }
}

// An event stores a 32-bit number instead of its context's id.

/// Marks the number of an id that is not in the list of contexts.
const NOT_LISTED: u32 = 1 << 31;

/// The context of an event: an index in [`crate::tables::Tables::contexts`], or a number in [`ContextNames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextName(u32);

impl ContextName {
    /// The index, if the context is listed.
    #[inline]
    pub const fn at(self) -> Option<u32> {
        if self.0 & NOT_LISTED == 0 { Some(self.0) } else { None }
    }

    /// The name of a listed context.
    pub const fn from_index(at: u32) -> Self {
        Self(at & !NOT_LISTED)
    }

    /// The number, if the context is not listed.
    pub const fn number(self) -> Option<u32> {
        if self.0 & NOT_LISTED == 0 { None } else { Some(self.0 & !NOT_LISTED) }
    }
}

/// The distinct ids of contexts as NCCL passed them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContextNames {
    ids: Vec<u64>,
    numbers: FxHashMap<u64, u32>,
    last: Option<(u64, u32)>,
}

impl ContextNames {
    /// The name of an id before it is known whether the context is listed.
    #[inline]
    pub(crate) fn name(&mut self, id: u64) -> ContextName {
        let number = match self.last {
            Some((last, number)) if last == id => number,
            _ => self.look_up(id),
        };
        ContextName(NOT_LISTED | number)
    }

    fn look_up(&mut self, id: u64) -> u32 {
        let next = index_u32(self.ids.len());
        let number = *self.numbers.entry(id).or_insert(next);
        if number == next {
            self.ids.push(id);
        }
        self.last = Some((id, number));
        number
    }

    #[inline]
    pub(crate) fn id(&self, number: u32) -> u64 {
        self.ids.get(index(number)).copied().unwrap_or(0)
    }

    pub(crate) fn ids(&self) -> &[u64] {
        &self.ids
    }
}

/// A row of the table of events with the fields `F`. Takes four bytes, even in an `Option`.
pub struct Row<F>(NonZeroU32, PhantomData<fn() -> F>);

impl<F> Row<F> {
    /// The row at an index; `None` if the index does not fit.
    #[inline]
    pub fn new(index: usize) -> Option<Self> {
        let number = u32::try_from(index).ok()?.checked_add(1)?;
        Some(Self(NonZeroU32::new(number)?, PhantomData))
    }

    /// Index in the table, from 0.
    #[inline]
    pub fn index(self) -> usize {
        index(self.0.get() - 1)
    }
}

impl<F> Clone for Row<F> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Row<F> {}

impl<F> PartialEq for Row<F> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<F> Eq for Row<F> {}

impl<F> PartialOrd for Row<F> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<F> Ord for Row<F> {
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<F> Hash for Row<F> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<F> fmt::Debug for Row<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.index())
    }
}
