//! Texts of `nvtx.ranges` and names of communicators, numbered together while several threads read.

use std::collections::BTreeMap;

use nccl_events::ids::index_u32;
use parking_lot::RwLock;

#[derive(Debug, Default)]
pub(crate) struct Paths(RwLock<Numbers>);

#[derive(Clone, Debug, Default)]
struct Numbers {
    texts: Vec<String>,
    numbers: BTreeMap<String, u32>,
}

impl Clone for Paths {
    fn clone(&self) -> Self {
        Self(RwLock::new(self.0.read().clone()))
    }
}

/// Numbers the texts of a location, most of which are those before.
pub(super) struct Reader<'a> {
    paths: &'a Paths,
    last: (String, u32),
}

impl Paths {
    pub(super) fn reader(&self) -> Reader<'_> {
        Reader { paths: self, last: (String::new(), u32::MAX) }
    }

    /// The texts by number. Numbers depend on the order of reading.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.read().texts.clone()
    }
}

impl Reader<'_> {
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if self.last.0 != text {
            self.last = (text.to_owned(), self.find(text));
        }
        self.last.1
    }

    fn find(&self, text: &str) -> u32 {
        if let Some(number) = self.paths.0.read().numbers.get(text) {
            return *number;
        }
        let mut known = self.paths.0.write();
        let Numbers { texts, numbers } = &mut *known;
        *numbers.entry(text.to_owned()).or_insert_with(|| {
            texts.push(text.to_owned());
            index_u32(texts.len() - 1)
        })
    }
}
