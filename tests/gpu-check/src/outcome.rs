//! The outcome of a check.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Verdict {
    #[serde(rename = "ok")]
    Ok,
    /// Otherwise, or the check did not end.
    #[serde(rename = "failed")]
    Failed,
    #[serde(rename = "not here")]
    NotHere,
}

impl Verdict {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Failed => "failed",
            Verdict::NotHere => "not here",
        }
    }
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

    pub(crate) fn of(wrong: &[String], facts: Value) -> Self {
        let verdict = if wrong.is_empty() { Verdict::Ok } else { Verdict::Failed };
        Self { verdict, why: wrong.join("; "), facts }
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
