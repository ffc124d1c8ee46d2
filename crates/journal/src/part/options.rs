//! Which records go into the archive, and how: chosen when the archive is written, not when it is recorded.
//!
//! The choice of the process is in its `process.json`; the choice with which a part was written is in the part's
//! manifest. All parts of an archive must be written with the same choice.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::metrics::{Metric, MetricSet};
use nccl_events::Kind;

/// How an archive is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "their types say what they are")]
pub struct ArchiveOptions {
    pub level: Level,
    pub metrics: MetricSet,
    pub comm_locations: CommLocations,
    pub collectives: CollectiveRecords,
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// All choices, with their names.
            pub const CHOICES: &'static [(&'static str, Self)] = &[$(($text, Self::$variant),)+];

            /// The name in options.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let found = Self::CHOICES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim()));
                found.map(|(_, choice)| *choice).ok_or_else(|| {
                    let names: Vec<&str> = Self::CHOICES.iter().map(|(name, _)| *name).collect();
                    format!("not one of {}", names.join(", "))
                })
            }
        }
    };
}

choice! {
    /// Which recorded kinds of events are shown. Hidden ones are counted, and still say when operations ran.
    Level {
        /// Calls, launches, collectives, point-to-point and copy-engine operations.
        Light "light",
        /// `Light` and proxy operations.
        Standard "standard",
        /// All kinds.
        #[default]
        Full "full",
    }
}

choice! {
    /// The OTF2 location type of communicator locations.
    CommLocations {
        /// A stream of the GPU.
        #[default]
        Stream "stream",
        /// A CPU thread, for tools that show only the communication of threads.
        Cpu "cpu",
    }
}

choice! {
    /// Which records collectives have on their communicator location, besides regions.
    CollectiveRecords {
        /// `MpiCollectiveBegin` and `MpiCollectiveEnd` around the operation.
        #[default]
        Blocking "blocking",
        /// `NonBlockingCollectiveRequest` when it was enqueued, `NonBlockingCollectiveComplete` when it ended.
        Nonblocking "nonblocking",
        /// No records.
        None "none",
    }
}

impl Level {
    /// Whether events of a kind are shown.
    pub const fn shows(self, kind: Kind) -> bool {
        self as u8 >= Self::of(kind) as u8
    }

    /// The lowest level that shows a kind.
    const fn of(kind: Kind) -> Self {
        match nccl_events::Preset::of(kind) {
            nccl_events::Preset::Light => Self::Light,
            nccl_events::Preset::Standard => Self::Standard,
            nccl_events::Preset::Full => Self::Full,
        }
    }
}

/// Options given when an archive is written again; the others stay as they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of `ArchiveOptions`")]
pub struct ArchiveWishes {
    pub level: Option<Level>,
    pub metrics: Option<MetricSet>,
    pub comm_locations: Option<CommLocations>,
    pub collectives: Option<CollectiveRecords>,
}

impl ArchiveWishes {
    /// Whether no option is given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// `before`, overridden by the options given here.
    pub fn over(&self, before: ArchiveOptions) -> ArchiveOptions {
        ArchiveOptions {
            level: self.level.unwrap_or(before.level),
            metrics: self.metrics.unwrap_or(before.metrics),
            comm_locations: self.comm_locations.unwrap_or(before.comm_locations),
            collectives: self.collectives.unwrap_or(before.collectives),
        }
    }
}

impl ArchiveOptions {
    /// Option names and values, as text.
    pub fn named(&self) -> [(&'static str, String); 4] {
        [
            ("LEVEL", self.level.name().to_owned()),
            ("METRICS", self.metrics.to_string()),
            ("COMM_LOCATIONS", self.comm_locations.name().to_owned()),
            ("COLLECTIVES", self.collectives.name().to_owned()),
        ]
    }

    /// Whether event files written with these options are also valid for `other`. Only unify uses the other options.
    pub fn same_events(&self, other: &Self) -> bool {
        let with_lanes_of_other = Self { comm_locations: other.comm_locations, ..*self };
        with_lanes_of_other == *other
    }

    /// The metrics to compute, in the order of their numbers in a part.
    pub fn metrics(&self) -> Vec<Metric> {
        self.metrics.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_the_presets_of_recording() {
        use nccl_events::{FULL, LIGHT, STANDARD};
        for (level, mask) in [(Level::Light, LIGHT), (Level::Standard, STANDARD), (Level::Full, FULL)] {
            for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Unknown) {
                assert_eq!(level.shows(kind), mask & kind.mask() != 0, "{level:?} {kind:?}");
            }
        }
    }

    #[test]
    fn what_is_not_asked_for_stays() {
        let before =
            ArchiveOptions { level: Level::Light, collectives: CollectiveRecords::None, ..ArchiveOptions::default() };
        let wishes = ArchiveWishes { comm_locations: Some(CommLocations::Cpu), ..ArchiveWishes::default() };
        let after = wishes.over(before);
        assert_eq!(after, ArchiveOptions { comm_locations: CommLocations::Cpu, ..before });
        assert!(before.same_events(&after));
        let wishes = ArchiveWishes { level: Some(Level::Full), ..wishes };
        assert!(!before.same_events(&wishes.over(before)));
    }

    #[test]
    fn a_word_that_means_nothing_is_refused() {
        assert_eq!("Light".parse(), Ok(Level::Light));
        let error = "lite".parse::<Level>().expect_err("no level");
        assert_eq!(error, "not one of light, standard, full");
    }
}
