//! Made-up jobs on machines with clocks of their own: when everything happened is known, so that a merged archive can
//! be held against the truth.

use otf2::StringRef;
use otf2::verbatim::Definition;

/// Nanoseconds since some moment that all hosts have in common.
pub(crate) type Moment = i128;

pub(crate) const SECOND: Moment = 1_000_000_000;

/// What Score-P reads the time from.
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
    // Started later, and its quartz is another.
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

    /// Their wall clocks are 8 ms apart.
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

/// How much later something of the last host is by the wall clocks, in ticks of the first host's timer.
pub(crate) fn wall_clocks_differ(timer: Timer, at: Moment) -> Moment {
    let [alpha, beta] = HOSTS;
    // The moment at which the first host's wall clock shows what the last one's shows.
    let shown = beta.realtime(at);
    let by_offset = alpha.realtime(0) - alpha.monotonic(0);
    let monotonic = shown - by_offset;
    let moment = (monotonic - alpha.began) * SECOND / (SECOND + alpha.slew_ppb);
    alpha.timer(timer, moment) - alpha.timer(timer, at)
}

/// The host of a rank: the last one has one of its own.
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

/// Collects the strings of an archive.
#[derive(Default)]
pub(crate) struct Texts(Vec<String>);

impl Texts {
    pub(crate) fn get(&mut self, text: &str) -> StringRef {
        let place = self.0.iter().position(|known| known == text).unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        });
        StringRef::new(u32::try_from(place).expect("few"))
    }

    pub(crate) fn definitions(self) -> Vec<Definition> {
        let texts = (0..).zip(self.0);
        let definition =
            texts.map(|(number, text)| Definition::String { this: StringRef::new(number), text: text.into_bytes() });
        definition.collect()
    }
}
