//! The grammars of archive properties. A property's type also defines how its values are merged.

use small_sort::Gather;

/// The value of a property.
pub trait Grammar: Default + PartialEq {
    /// Parses a text; `None` if it violates the grammar.
    fn parse(text: &str) -> Option<Self>;
    /// The text to write; empty if there is no value.
    fn text(&self) -> String;
    /// Adds the value from another archive.
    fn merge(&mut self, other: &Self);
}

macro_rules! numbers {
    ($($(#[doc = $doc:literal])+ $name:ident: |$a:ident, $b:ident| $merged:expr;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub Option<u64>);

        impl $name {
            /// The number, or no value if it is 0.
            pub const fn some(number: u64) -> Self {
                Self(if number == 0 { None } else { Some(number) })
            }

            /// The number; 0 if there is no value.
            pub const fn get(self) -> u64 {
                match self.0 {
                    Some(number) => number,
                    None => 0,
                }
            }
        }

        impl Grammar for $name {
            fn parse(text: &str) -> Option<Self> {
                Some(Self(Some(text.trim().parse().ok()?)))
            }

            fn text(&self) -> String {
                self.0.map(|number| number.to_string()).unwrap_or_default()
            }

            fn merge(&mut self, other: &Self) {
                let ($a, $b) = (self.0, other.0);
                self.0 = $merged;
            }
        }
    )+};
}

numbers! {
    /// A number that merging adds up. Missing means 0.
    Sum: |a, b| a.into_iter().chain(b).reduce(u64::saturating_add);
    /// A number of which merging keeps the largest.
    Most: |a, b| a.max(b);
    /// A number that merging adds up. Missing means unknown, and makes the sum unknown.
    KnownSum: |a, b| a.zip(b).map(|(a, b)| a.saturating_add(b));
}

/// A list with one entry per line. A merged list contains each entry once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The entries.
    pub all: Vec<String>,
    /// Number of entries that were cut to make the list fit into the anchor file.
    pub more: u64,
}

/// Prefix of the last line of a cut list.
const MORE: &str = "and more: ";

impl Lines {
    /// A list of these entries. A line break in an entry is written as `\n`.
    pub fn of<T: AsRef<str>>(entries: impl IntoIterator<Item = T>) -> Self {
        let line = |entry: T| entry.as_ref().replace('\n', "\\n").replace('\0', "");
        Self { all: entries.into_iter().map(line).collect(), more: 0 }
    }

    /// Number of entries, including those that were cut.
    pub fn len(&self) -> u64 {
        self.more.saturating_add(self.all.len() as u64)
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries, for users, with a final line for entries that were cut.
    pub fn shown(&self) -> Vec<String> {
        self.all.iter().cloned().chain((self.more > 0).then(|| format!("{MORE}{}", self.more))).collect()
    }

    /// Cuts the list to as many of its first entries as fit into `bytes`.
    pub(crate) fn cut(&mut self, bytes: usize) {
        let mut length = 0;
        let fits = |line: &&String| {
            let before = length;
            length += line.len() + 1;
            before + line.len() < bytes
        };
        let kept = self.all.iter().take_while(fits).count();
        self.more = self.more.saturating_add((self.all.len() - kept) as u64);
        self.all.truncate(kept);
    }
}

impl Grammar for Lines {
    fn parse(text: &str) -> Option<Self> {
        let (kept, last) = text.rsplit_once('\n').unwrap_or(("", text));
        let more = last.strip_prefix(MORE).and_then(|more| more.parse().ok());
        let kept = if more.is_some() { kept } else { text };
        Some(Self { all: kept.lines().map(str::to_owned).collect(), more: more.unwrap_or(0) })
    }

    fn text(&self) -> String {
        self.shown().join("\n")
    }

    fn merge(&mut self, other: &Self) {
        let known: std::collections::BTreeSet<&String> = self.all.iter().gather();
        let new: Vec<String> = other.all.iter().filter(|line| !known.contains(line)).cloned().collect();
        self.all.extend(new);
        self.more = self.more.saturating_add(other.more);
    }
}

/// A value that applies to a single archive, and that merged archives lack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own(pub String);

impl Grammar for Own {
    fn parse(text: &str) -> Option<Self> {
        Some(Self(text.to_owned()))
    }

    fn text(&self) -> String {
        self.0.clone()
    }

    fn merge(&mut self, _: &Self) {
        self.0.clear();
    }
}

/// A list and a number, which counts the entries or what they describe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The total number.
    pub number: Sum,
    /// The entries, or the first of them.
    pub lines: Lines,
}

impl Listed {
    /// The most entries that a writer writes of a potentially long list.
    const MOST: u64 = 100;

    /// This number, and at most [`Self::MOST`] of the entries.
    pub fn some<T: AsRef<str>>(number: u64, entries: impl IntoIterator<Item = T>) -> Self {
        let entries = entries.into_iter().take(usize::try_from(Self::MOST).unwrap_or(usize::MAX));
        Self { number: Sum::some(number), lines: Lines::of(entries) }
    }

    /// Whether the list has at least as many entries as the number requires.
    pub fn has_enough(&self) -> bool {
        self.lines.len() >= self.number.get().min(Self::MOST)
    }

    /// Merges and counts entries with equal keys once. `key` returns the identifying part of an entry.
    pub(crate) fn merge_by(&mut self, other: &Self, key: fn(&str) -> &str) {
        let known: std::collections::BTreeSet<&str> = self.lines.all.iter().map(|line| key(line)).gather();
        let both = other.lines.all.iter().filter(|line| known.contains(key(line))).count() as u64;
        self.number.merge(&other.number);
        self.number.0 = self.number.0.map(|number| number.saturating_sub(both));
        self.lines.merge(&other.lines);
    }
}
