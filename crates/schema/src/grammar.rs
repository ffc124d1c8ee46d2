//! The grammars of properties of an archive. The type of a property is also the rule by which archives are merged.

use small_sort::Gather;

/// What a property says, as it is written.
pub trait Grammar: Default + PartialEq {
    /// Reads it; `None` if it breaks the grammar.
    fn parse(text: &str) -> Option<Self>;
    /// Writes it; empty if nothing is said.
    fn text(&self) -> String;
    /// Adds what another archive says.
    fn merge(&mut self, other: &Self);
}

macro_rules! numbers {
    ($($(#[doc = $doc:literal])+ $name:ident: |$a:ident, $b:ident| $merged:expr;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub Option<u64>);

        impl $name {
            /// A number that says nothing if it is 0.
            pub const fn some(number: u64) -> Self {
                Self(if number == 0 { None } else { Some(number) })
            }

            /// The number; 0 if there is none.
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
    /// A number that adds up. Absent is 0.
    Sum: |a, b| a.into_iter().chain(b).reduce(u64::saturating_add);
    /// The largest of several numbers.
    Most: |a, b| a.max(b);
    /// A number that adds up. Absent is unknown, and so is every sum with it.
    Told: |a, b| a.zip(b).map(|(a, b)| a.saturating_add(b));
}

/// A list, an entry a line. Merged, it has each entry once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The entries.
    pub all: Vec<String>,
    /// How many more there were before the list was cut to fit into the anchor file.
    pub more: u64,
}

/// How the last line of a list that was cut begins.
const MORE: &str = "and more: ";

impl Lines {
    /// These entries. A line break in an entry is written as `\n`.
    pub fn of<T: AsRef<str>>(entries: impl IntoIterator<Item = T>) -> Self {
        let line = |entry: T| entry.as_ref().replace('\n', "\\n").replace('\0', "");
        Self { all: entries.into_iter().map(line).collect(), more: 0 }
    }

    /// How many entries there are, or were.
    pub fn len(&self) -> u64 {
        self.more.saturating_add(self.all.len() as u64)
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries for people, with a line that says how many were cut.
    pub fn shown(&self) -> Vec<String> {
        self.all.iter().cloned().chain((self.more > 0).then(|| format!("{MORE}{}", self.more))).collect()
    }

    /// Cuts the list to its first entries, as far as they have at most `bytes` together.
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

/// What is only true of one archive: a merged one does not say it.
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

/// A list, and a number: of its entries, or of what they are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// How many there are.
    pub number: Sum,
    /// The entries, or the first of them.
    pub lines: Lines,
}

impl Listed {
    /// A writer gives at most so many entries of a list that may be long.
    const MOST: u64 = 100;

    /// This number, and at most [`Self::MOST`] of these entries.
    pub fn some<T: AsRef<str>>(number: u64, entries: impl IntoIterator<Item = T>) -> Self {
        let entries = entries.into_iter().take(usize::try_from(Self::MOST).unwrap_or(usize::MAX));
        Self { number: Sum::some(number), lines: Lines::of(entries) }
    }

    /// Whether the list has as many entries as the number says that it must have at least.
    pub fn has_enough(&self) -> bool {
        self.lines.len() >= self.number.get().min(Self::MOST)
    }

    /// Entries of both archives are one. `key` is what of an entry says which it is.
    pub(crate) fn merge_by(&mut self, other: &Self, key: fn(&str) -> &str) {
        let known: std::collections::BTreeSet<&str> = self.lines.all.iter().map(|line| key(line)).gather();
        let both = other.lines.all.iter().filter(|line| known.contains(key(line))).count() as u64;
        self.number.merge(&other.number);
        self.number.0 = self.number.0.map(|number| number.saturating_sub(both));
        self.lines.merge(&other.lines);
    }
}
