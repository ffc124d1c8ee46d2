//! What came of a check.

use serde_json::{Map, Value, json};

/// Measured facts, by name.
pub(crate) type Facts = Map<String, Value>;

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As the plugin takes it to be.
    Ok,
    /// Otherwise, or the check did not come to its end.
    Failed(String),
    /// This machine cannot show it, and why.
    NotHere(String),
}

/// The answer with what was measured.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) facts: Facts,
}

impl Outcome {
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self::new(Verdict::Failed(why.into()), Facts::new())
    }

    pub(crate) fn not_here(why: impl Into<String>) -> Self {
        Self::new(Verdict::NotHere(why.into()), Facts::new())
    }

    pub(crate) const fn new(verdict: Verdict, facts: Facts) -> Self {
        Self { verdict, facts }
    }

    /// All is well where nothing is wrong.
    pub(crate) fn of(wrong: &[String], facts: Facts) -> Self {
        let verdict = if wrong.is_empty() {
            Verdict::Ok
        } else {
            Verdict::Failed(wrong.join("; "))
        };
        Self::new(verdict, facts)
    }

    /// As JSON: `verdict`, `why`, `facts`.
    pub(crate) fn to_json(&self) -> Value {
        json!({ "verdict": self.word(), "why": self.why(), "facts": self.facts })
    }

    /// Reads what [`Outcome::to_json`] made.
    pub(crate) fn from_json(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let why = || value["why"].as_str().unwrap_or_default().to_owned();
        let verdict = match value["verdict"].as_str()? {
            "ok" => Verdict::Ok,
            "failed" => Verdict::Failed(why()),
            "not here" => Verdict::NotHere(why()),
            _ => return None,
        };
        Some(Self::new(verdict, value["facts"].as_object()?.clone()))
    }

    pub(crate) const fn word(&self) -> &'static str {
        match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Failed(_) => "failed",
            Verdict::NotHere(_) => "not here",
        }
    }

    pub(crate) fn why(&self) -> &str {
        match &self.verdict {
            Verdict::Ok => "",
            Verdict::Failed(why) | Verdict::NotHere(why) => why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_goes_through_json() {
        let mut facts = Facts::new();
        facts.insert("kernels".to_owned(), json!(7));
        let told = Outcome::of(&["one".to_owned(), "two".to_owned()], facts);
        let heard = Outcome::from_json(&told.to_json().to_string()).unwrap();
        assert_eq!(heard.verdict, Verdict::Failed("one; two".to_owned()));
        assert_eq!(heard.facts["kernels"], 7);
        assert!(Outcome::from_json("{\"verdict\":\"fine\",\"facts\":{}}").is_none());
    }
}
