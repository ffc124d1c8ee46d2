//! Options that select what is printed.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use anyhow::Result;
use clap::Args;
use jiff::SignedDuration;

use crate::present::{Present, asked};
use crate::units;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Filter {
    /// Only of these communicators: by name or id (hexadecimal with 0x, or decimal)
    #[arg(long, value_name = "COMM", value_delimiter = ',')]
    comm: Vec<String>,

    /// Only of these ranks (of their communicators)
    #[arg(long, value_name = "RANK", value_delimiter = ',', value_parser = rank::<i32>, allow_negative_numbers = true)]
    rank: Vec<i32>,

    /// Only of these kinds, such as Coll,ProxyStep
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<String>,

    /// Only what runs at or after this time: 1.5s, 20ms, 300us or 5ns after the beginning, or @TIME on the clock
    #[arg(long, value_name = "TIME")]
    from: Option<Time>,

    /// Only what runs at or before this time
    #[arg(long, value_name = "TIME")]
    to: Option<Time>,

    /// Print at most this many lines
    #[arg(long, value_name = "LINES")]
    pub(crate) limit: Option<u64>,
}

pub(crate) fn rank<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "is no rank such as 3; several go with commas: 0,1,2")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// Nanoseconds from the start.
    Relative(u64),
    /// Nanoseconds on the recording's clock.
    Absolute(u64),
}

impl FromStr for Time {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "expected a time such as 1.5s, 20ms, 300us or 5ns after the beginning, or @TIME \
            since 1970 in ns";
        if let Some(digits) = text.strip_prefix('@') {
            return digits.parse().map(Self::Absolute).map_err(|_| WRONG);
        }
        let after: SignedDuration = text.parse().map_err(|_| WRONG)?;
        Ok(Self::Relative(u64::try_from(after.as_nanos()).map_err(|_| WRONG)?))
    }
}

impl Display for Time {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relative(ns) => write!(to, "{}", units::time(*ns)),
            Self::Absolute(ns) => write!(to, "@{ns}"),
        }
    }
}

impl Time {
    pub(crate) fn after(self, begin_ns: u64) -> u64 {
        match self {
            Self::Relative(ns) => begin_ns.saturating_add(ns),
            Self::Absolute(ns) => ns,
        }
    }
}

impl Filter {
    pub(crate) fn of(comm: &[String], rank: &[u32], (from, to): (Option<Time>, Option<Time>)) -> Self {
        let rank = rank.iter().map(|rank| i32::try_from(*rank).unwrap_or(i32::MAX)).collect();
        Self { comm: comm.to_vec(), rank, from, to, ..Self::default() }
    }

    pub(crate) const fn is_about_time(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// Whether this communicator is wanted; an unknown communicator has no name and no id.
    pub(crate) fn wants_comm(&self, name: &str, id: Option<u64>) -> bool {
        self.comm.is_empty()
            || self.comm.iter().any(|wanted| {
                let number = match wanted.strip_prefix("0x") {
                    Some(digits) => u64::from_str_radix(digits, 16).ok(),
                    None => wanted.parse().ok(),
                };
                (!name.is_empty() && wanted == name) || (id.is_some() && number == id)
            })
    }

    pub(crate) fn is_about_events(&self) -> bool {
        !(self.comm.is_empty() && self.rank.is_empty() && self.kind.is_empty())
    }

    pub(crate) fn wants_rank(&self, rank: Option<i64>) -> bool {
        self.rank.is_empty() || self.rank.iter().any(|wanted| Some(i64::from(*wanted)) == rank)
    }

    pub(crate) fn wants_kind(&self, kind: &str) -> bool {
        let plain = |name: &str| name.strip_prefix("ncclProfile").unwrap_or(name).to_ascii_lowercase();
        self.kind.is_empty() || self.kind.iter().any(|wanted| plain(wanted) == plain(kind))
    }

    /// Whether the interval overlaps the wanted one. `last_ns` is `None` if the interval has no end.
    pub(crate) fn wants_time(&self, begin_ns: u64, first_ns: u64, last_ns: Option<u64>) -> bool {
        let is_late = self.to.is_some_and(|to| first_ns > to.after(begin_ns));
        !is_late && self.from.zip(last_ns).is_none_or(|(from, last)| last >= from.after(begin_ns))
    }

    /// Refuses filter values that the recording lacks. `has_comm`: whether a communicator matches the filter.
    pub(crate) fn refuse_absent(&self, present: &Present, has_comm: impl Fn(&Self) -> bool) -> Result<()> {
        let single = |comm: &str| Self { comm: vec![comm.to_owned()], ..Self::default() };
        present.has_communicators(&self.comm, |comm| has_comm(&single(comm)))?;
        present.has_ranks(self.rank.iter().copied().map(i64::from))?;
        let [from_ns, to_ns] = [self.from, self.to].map(|time| time.map(|time| time.after(present.begin_ns)));
        present.has_time(from_ns, to_ns)
    }

    /// Fails if the filters together match nothing; `found` is the number of matches.
    pub(crate) fn refuse_nothing(&self, present: &Present, found: u64) -> Result<()> {
        let time = |flag: &str, time: Option<Time>| time.map(|time| format!("{flag} {time}"));
        let filters = [
            asked("--comm", &self.comm),
            asked("--rank", &self.rank),
            asked("--kind", &self.kind),
            time("--from", self.from),
            time("--to", self.to),
        ];
        // `--limit 0` prints nothing on purpose.
        present.refuse_nothing(filters, if self.limit == Some(0) { 1 } else { found })
    }

    pub(crate) fn unknown_kinds(&self, exists: impl Fn(&Self) -> bool) -> Vec<&str> {
        let single = |kind: &&String| Self { kind: vec![(*kind).clone()], ..Self::default() };
        self.kind.iter().filter(|kind| !exists(&single(kind))).map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        for (text, time) in [
            ("1.5s", Time::Relative(1_500_000_000)),
            ("20ms", Time::Relative(20_000_000)),
            ("0.001us", Time::Relative(1)),
            ("7ns", Time::Relative(7)),
            ("@123", Time::Absolute(123)),
        ] {
            assert_eq!(text.parse(), Ok(time), "{text}");
        }
        for wrong in ["", "5", "s", "1.5ns", "-1s", "@x", "1.2.3s"] {
            wrong.parse::<Time>().expect_err(wrong);
        }
    }
}
