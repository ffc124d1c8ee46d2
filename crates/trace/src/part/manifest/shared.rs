//! Lists that most parts of a job have alike: each is in memory once.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize, Serializer};

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "Vec<T>")]
pub(crate) struct Shared<T>(Arc<Vec<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> From<Vec<T>> for Shared<T> {
    fn from(list: Vec<T>) -> Self {
        Self(Arc::new(list))
    }
}

impl<T> FromIterator<T> for Shared<T> {
    fn from_iter<I: IntoIterator<Item = T>>(list: I) -> Self {
        list.into_iter().collect::<Vec<T>>().into()
    }
}

impl<T> Deref for Shared<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The lists of the parts that were read.
#[derive(Debug)]
pub(super) struct Pool<T>(Mutex<BTreeSet<Shared<T>>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Ord> Pool<T> {
    /// Replaces a list by an equal one that another part has.
    pub(super) fn share(&self, list: &mut Shared<T>) {
        let mut known = self.0.lock();
        match known.get(list) {
            Some(equal) => *list = equal.clone(),
            None => _ = known.insert(list.clone()),
        }
    }
}
