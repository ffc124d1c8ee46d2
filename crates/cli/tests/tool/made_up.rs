//! Made-up jobs on machines with separate clocks. The true time of every event is known, for comparison with merged
//! archives.

use otf2::verbatim::Definition;
use otf2::{
    ArchiveWriter, AttributeRef, AttributeValue, CommRef, GroupRef, LocationGroupRef, LocationRef, RegionRef,
    StringRef, SystemTreeNodeRef,
};

use super::fixture::StatedValue;

/// Nanoseconds since an origin common to all hosts.
pub(crate) type Moment = i128;

pub(crate) const SECOND: Moment = 1_000_000_000;

/// The timer that Score-P reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    Counter,
    MonotonicRaw,
    Realtime,
}

/// The clocks of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) name: &'static str,
    pub(crate) ticks_per_second: Moment,
    pub(crate) began: Moment,
    pub(crate) slew_ppb: Moment,
}

pub(crate) const HOSTS: [Host; 2] = [
    Host { name: "alpha", ticks_per_second: 2_445_450_361, began: 4_000 * SECOND, slew_ppb: 12_000 },
    // Started later, with a different quartz.
    Host { name: "beta", ticks_per_second: 2_445_455_252, began: 77 * SECOND, slew_ppb: -35_000 },
];

impl Host {
    pub(crate) fn ticks(&self, at: Moment) -> Moment {
        (self.began + at) * self.ticks_per_second / SECOND
    }

    pub(crate) fn monotonic(&self, at: Moment) -> Moment {
        self.began + at + at * self.slew_ppb / SECOND
    }

    pub(crate) fn raw(&self, at: Moment) -> Moment {
        self.began + at - 3 * SECOND
    }

    /// The hosts' wall clocks are 8 ms apart.
    pub(crate) fn realtime(&self, at: Moment) -> Moment {
        self.monotonic(at) - self.began + 1_700_000_000 * SECOND + self.began / 500_000
    }

    pub(crate) fn timer(&self, timer: Timer, at: Moment) -> Moment {
        match timer {
            Timer::Counter => self.ticks(at),
            Timer::MonotonicRaw => self.raw(at),
            Timer::Realtime => self.realtime(at) / 1000,
        }
    }
}

/// How much later the wall clocks place an event of the last host, in ticks of the first host's timer.
pub(crate) fn wall_clocks_differ(timer: Timer, at: Moment) -> Moment {
    let [alpha, beta] = HOSTS;
    // The moment when the first host's wall clock shows this time.
    let shown = beta.realtime(at);
    let by_offset = alpha.realtime(0) - alpha.monotonic(0);
    let monotonic = shown - by_offset;
    let moment = (monotonic - alpha.began) * SECOND / (SECOND + alpha.slew_ppb);
    alpha.timer(timer, moment) - alpha.timer(timer, at)
}

/// The host of a rank: the last rank is on a host of its own.
pub(crate) fn host(rank: u64) -> Host {
    HOSTS[usize::from(rank == RANKS - 1)]
}

pub(crate) const RANKS: u64 = 3;

pub(crate) fn process_id(rank: u64) -> u64 {
    1000 + 17 * rank
}

pub(crate) fn number(moment: Moment) -> u64 {
    u64::try_from(moment).expect("a time")
}

/// Collects the definitions of an archive, and its strings.
#[derive(Default)]
pub(crate) struct Definitions {
    texts: Vec<String>,
    all: Vec<Definition>,
}

impl Definitions {
    pub(crate) fn text(&mut self, text: &str) -> StringRef {
        let place = self.texts.iter().position(|known| known == text).unwrap_or_else(|| {
            self.texts.push(text.to_owned());
            self.texts.len() - 1
        });
        StringRef::new(u32::try_from(place).expect("few"))
    }

    pub(crate) fn value(&mut self, value: StatedValue) -> AttributeValue {
        match value {
            StatedValue::Text(text) => AttributeValue::String(self.text(text)),
            StatedValue::Signed(number) => AttributeValue::I64(number),
            StatedValue::Unsigned(number) => AttributeValue::U64(number),
        }
    }

    pub(crate) fn push(&mut self, definition: Definition) {
        self.all.push(definition);
    }

    pub(crate) fn node(&mut self, this: u32, name: &str, class_name: &str, parent: Option<u32>) {
        let this = SystemTreeNodeRef::new(this);
        let parent = parent.map_or(SystemTreeNodeRef::UNDEFINED, SystemTreeNodeRef::new);
        let (name, class_name) = (self.text(name), self.text(class_name));
        self.push(Definition::SystemTreeNode { this, name, class_name, parent });
    }

    pub(crate) fn location_group(&mut self, this: u32, name: &str, group_type: u8, node: u32, creator: Option<u32>) {
        let (this, parent) = (LocationGroupRef::new(this), SystemTreeNodeRef::new(node));
        let creator = creator.map_or(LocationGroupRef::UNDEFINED, LocationGroupRef::new);
        let name = self.text(name);
        self.push(Definition::LocationGroup { this, name, group_type, parent, creator });
    }

    pub(crate) fn group_property(&mut self, of: u32, name: &str, value: AttributeValue) {
        let (of, name) = (LocationGroupRef::new(of), self.text(name));
        self.push(Definition::LocationGroupProperty { of, name, value });
    }

    pub(crate) fn location(&mut self, this: LocationRef, name: &str, location_type: u8, events: u64, group: u32) {
        let (name, group) = (self.text(name), LocationGroupRef::new(group));
        self.push(Definition::Location { this, name, location_type, number_of_events: events, group });
    }

    pub(crate) fn location_property(&mut self, of: LocationRef, name: &str, value: AttributeValue) {
        let name = self.text(name);
        self.push(Definition::LocationProperty { of, name, value });
    }

    /// Adds a region of this role and paradigm, with its name, canonical name and file.
    pub(crate) fn region(&mut self, this: RegionRef, names: [&str; 2], file: Option<&str>, role: u8, paradigm: u8) {
        let [name, canonical_name] = names.map(|name| self.text(name));
        let source_file = file.map_or(StringRef::UNDEFINED, |file| self.text(file));
        self.push(Definition::Region {
            this,
            name,
            canonical_name,
            description: StringRef::UNDEFINED,
            role,
            paradigm,
            flags: 0,
            source_file,
            begin_line: 0,
            end_line: 0,
        });
    }

    pub(crate) fn attribute(&mut self, this: u32, name: &str, description: Option<&str>, attribute_type: u8) {
        let name = self.text(name);
        let description = description.map_or(StringRef::UNDEFINED, |text| self.text(text));
        self.push(Definition::Attribute { this: AttributeRef::new(this), name, description, attribute_type });
    }

    /// Adds a group of paradigm 4.
    pub(crate) fn group(&mut self, this: u32, name: &str, group_type: u8, members: Vec<u64>) {
        let (this, name) = (GroupRef::new(this), self.text(name));
        self.push(Definition::Group { this, name, group_type, paradigm: 4, flags: 0, members });
    }

    pub(crate) fn comm(&mut self, this: u32, name: &str, group: u32) {
        let (this, name, group) = (CommRef::new(this), self.text(name), GroupRef::new(group));
        self.push(Definition::Comm { this, name, group, parent: CommRef::UNDEFINED, flags: 0 });
    }

    /// Writes all definitions, strings first. `clock`: resolution, offset, length and date.
    pub(crate) fn write(self, archive: &mut ArchiveWriter, clock: [u64; 4]) {
        let [timer_resolution, global_offset, trace_length, realtime_timestamp] = clock;
        let clock = Definition::ClockProperties { timer_resolution, global_offset, trace_length, realtime_timestamp };
        let texts = (0..).zip(self.texts).map(|(number, text)| {
            let this = StringRef::new(number);
            Definition::String { this, text: text.into_bytes() }
        });
        let mut to = archive.definitions().expect("definitions");
        for definition in [clock].into_iter().chain(texts).chain(self.all) {
            to.verbatim(&definition).expect("a definition");
        }
    }
}
