//! What of the recorded goes into the archive, and how: chosen when it is written, not when it is recorded.
//!
//! The choice of a process is in its `process.json`, the one a part was written with in its manifest: all parts of an
//! archive are to be written alike.

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
            /// All, with their names.
            pub const CHOICES: &'static [(&'static str, Self)] = &[$(($text, Self::$variant),)+];

            /// The name, as it is chosen by.
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
    /// Which kinds of events are shown, of those that were recorded. What is left out is counted, and still
    /// tells when operations ran and what they moved.
    Level {
        /// Calls, launches, collectives, point-to-point and copy-engine operations.
        Light "light",
        /// These, and proxy operations.
        Standard "standard",
        /// Everything.
        #[default]
        Full "full",
    }
}

choice! {
    /// What kind of location a communicator location is.
    CommLocations {
        /// A stream of the GPU.
        #[default]
        Stream "stream",
        /// A thread of the process: for tools that show communication of threads only.
        Cpu "cpu",
    }
}

choice! {
    /// Which records collectives have on their communicator location.
    CollectiveRecords {
        /// `MpiCollectiveBegin` and `MpiCollectiveEnd` around the operation.
        #[default]
        Blocking "blocking",
        /// `NonBlockingCollectiveRequest` when it was enqueued, `NonBlockingCollectiveComplete` when it ended.
        Nonblocking "nonblocking",
        /// None: regions only.
        None "none",
    }
}

impl Level {
    /// Whether events of a kind are shown.
    pub const fn shows(self, kind: Kind) -> bool {
        self as u8 >= Self::of(kind) as u8
    }

    /// The lowest level that has a kind.
    const fn of(kind: Kind) -> Self {
        match nccl_events::Preset::of(kind) {
            nccl_events::Preset::Light => Self::Light,
            nccl_events::Preset::Standard => Self::Standard,
            nccl_events::Preset::Full => Self::Full,
        }
    }
}

/// What somebody asks for when an archive is written again; the rest stays as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of `ArchiveOptions`")]
pub struct ArchiveWishes {
    pub level: Option<Level>,
    pub metrics: Option<MetricSet>,
    pub comm_locations: Option<CommLocations>,
    pub collectives: Option<CollectiveRecords>,
}

impl ArchiveWishes {
    /// Whether anything is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What was, with what is asked for instead.
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
    /// The choices in words: name of the option and value.
    pub fn named(&self) -> [(&'static str, String); 4] {
        [
            ("LEVEL", self.level.name().to_owned()),
            ("METRICS", self.metrics.to_string()),
            ("COMM_LOCATIONS", self.comm_locations.name().to_owned()),
            ("COLLECTIVES", self.collectives.name().to_owned()),
        ]
    }

    /// Whether event files written with these are good for `other`, too: only unify looks at the rest.
    pub fn same_events(&self, other: &Self) -> bool {
        let with_lanes_of_other = Self { comm_locations: other.comm_locations, ..*self };
        with_lanes_of_other == *other
    }

    /// The metrics that are computed, in the order of their numbers in a part.
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
