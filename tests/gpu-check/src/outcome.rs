//! The outcome of a check.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Ok,
    /// Otherwise, or the check did not end.
    Failed,
    #[serde(rename = "not here")]
    NotHere,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    /// Empty where all is well.
    pub(crate) why: String,
    pub(crate) facts: Value,
}

impl Outcome {
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Failed, why: why.into(), facts: Value::Null }
    }

    pub(crate) fn not_here(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotHere, ..Self::failed(why) }
    }

    pub(crate) fn from_problems(wrong: &Problems, facts: Value) -> Self {
        let verdict = if wrong.0.is_empty() { Verdict::Ok } else { Verdict::Failed };
        Self { verdict, why: wrong.0.join("; "), facts }
    }
}

/// What is not as it is to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems(Vec<String>);

impl Problems {
    pub(crate) fn unless(&mut self, holds: bool, why: impl Into<String>) {
        self.0.extend((!holds).then(|| why.into()));
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// An outcome, or what kept the check from one.
pub(crate) type Answer = Result<Outcome, Outcome>;

pub(crate) fn with(mut facts: Value, more: Value) -> Value {
    if let (Some(facts), Value::Object(more)) = (facts.as_object_mut(), more) {
        facts.extend(more);
    }
    facts
}
