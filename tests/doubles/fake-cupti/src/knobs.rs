//! The variables of the environment: one table, read once.

use crate::level::Level;
use crate::log;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// In which order the records of a buffer, and the buffers of a flush, are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    AsMade,
    Reversed,
    /// by a generator that starts from this number
    Shuffled(u64),
}

/// Who has subscribed before the process under test could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    V1,
    V2,
    /// with others allowed
    V2Shared,
}

/// What the host clock of CUPTI is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ticks {
    /// nanoseconds of `CLOCK_REALTIME`
    Realtime,
    /// 2.9 per nanosecond, from somewhere
    Foreign,
}

/// What is asked of the double. The table in `README.md` has the meanings.
#[derive(Clone, Debug)]
pub(crate) struct Knobs {
    pub(crate) level: Level,
    pub(crate) assume_cuda: bool,
    pub(crate) strict: bool,
    pub(crate) kernel_len: Option<usize>,
    pub(crate) kernel_ns: u64,
    pub(crate) lag_ms: u64,
    pub(crate) late_ms: u64,
    pub(crate) split: bool,
    pub(crate) order: Order,
    pub(crate) zero_times: u64,
    pub(crate) no_names: bool,
    pub(crate) drop_kernels: u64,
    pub(crate) partial: bool,
    pub(crate) foreign_buffer: bool,
    pub(crate) taken: Option<String>,
    pub(crate) taken_by: Holder,
    pub(crate) takeover_after: Option<u64>,
    pub(crate) init: Option<i32>,
    pub(crate) old_driver: bool,
    pub(crate) ticks: Ticks,
    pub(crate) step_ns: i64,
    pub(crate) step_after_ms: u64,
    pub(crate) report: Option<String>,
}

/// The values given, by name; what is taken out is known.
struct Given(BTreeMap<String, String>);

impl Given {
    fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(&format!("FAKECUPTI_{name}"))
    }

    fn parsed<T>(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match parse(&text) {
            Some(value) => Ok(Some(value)),
            None => Err(format!("FAKECUPTI_{name}={text} is not a value of it")),
        }
    }

    fn number(&mut self, name: &str, default: u64) -> Result<u64, String> {
        Ok(self
            .parsed(name, |text| text.parse().ok())?
            .unwrap_or(default))
    }

    fn switch(&mut self, name: &str, default: bool) -> Result<bool, String> {
        let parsed = self.parsed(name, |text| match text {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        })?;
        Ok(parsed.unwrap_or(default))
    }
}

fn order(text: &str) -> Option<Order> {
    match text {
        "made" => Some(Order::AsMade),
        "reversed" => Some(Order::Reversed),
        _ => {
            let seed = text.strip_prefix("shuffled:")?;
            seed.parse().ok().map(Order::Shuffled)
        }
    }
}

fn holder(text: &str) -> Option<Holder> {
    match text {
        "v1" => Some(Holder::V1),
        "v2" => Some(Holder::V2),
        "v2-shared" => Some(Holder::V2Shared),
        _ => None,
    }
}

fn ticks(text: &str) -> Option<Ticks> {
    match text {
        "realtime" => Some(Ticks::Realtime),
        "foreign" => Some(Ticks::Foreign),
        _ => None,
    }
}

fn level(text: &str) -> Option<Level> {
    text.parse().ok().and_then(Level::known)
}

impl Knobs {
    /// Reads the variables, given as names and values.
    fn read(variables: impl Iterator<Item = (String, String)>) -> Result<Knobs, String> {
        let ours = variables.filter(|(name, _)| name.starts_with("FAKECUPTI_"));
        let mut given = Given(ours.collect());
        let knobs = Knobs {
            level: given.parsed("API", level)?.unwrap_or(Level(130_500)),
            assume_cuda: given
                .parsed("CUDA", |text| match text {
                    "check" => Some(false),
                    "assume" => Some(true),
                    _ => None,
                })?
                .unwrap_or(false),
            strict: given.switch("STRICT", true)?,
            kernel_len: given.parsed("KERNEL_LEN", |text| {
                let len: usize = text.parse().ok()?;
                (len >= 200 && len.is_multiple_of(8)).then_some(len)
            })?,
            kernel_ns: given.number("KERNEL_NS", 20_000)?,
            lag_ms: given.number("LAG_MS", 1)?,
            late_ms: given.number("LATE_MS", 0)?,
            split: given.switch("SPLIT", false)?,
            order: given.parsed("ORDER", order)?.unwrap_or(Order::AsMade),
            zero_times: given.number("ZERO_TIMES", 0)?,
            no_names: given.switch("NO_NAMES", false)?,
            drop_kernels: given.number("DROP", 0)?,
            partial: given.switch("PARTIAL", false)?,
            foreign_buffer: given.switch("FOREIGN_BUFFER", false)?,
            taken: given.text("TAKEN"),
            taken_by: given.parsed("TAKEN_BY", holder)?.unwrap_or(Holder::V1),
            takeover_after: given.parsed("TAKEOVER_AFTER", |text| text.parse().ok())?,
            init: given.parsed("INIT", |text| text.parse().ok())?,
            old_driver: given.switch("OLD_DRIVER", false)?,
            ticks: given.parsed("CLOCK", ticks)?.unwrap_or(Ticks::Realtime),
            step_ns: given
                .parsed("STEP_NS", |text| text.parse().ok())?
                .unwrap_or(0),
            step_after_ms: given.number("STEP_AFTER_MS", 0)?,
            report: given.text("REPORT"),
        };
        match given.0.first_key_value() {
            Some((name, _)) => Err(format!("there is no variable {name}")),
            None => Ok(knobs),
        }
    }
}

/// The knobs of this process.
pub(crate) fn knobs() -> &'static Knobs {
    static KNOBS: OnceLock<Knobs> = OnceLock::new();
    KNOBS.get_or_init(|| {
        Knobs::read(std::env::vars()).unwrap_or_else(|problem| {
            log::fatal(&format!(
                "{problem}; see README.md of tests/doubles/fake-cupti"
            ))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Knobs, String> {
        let owned = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Knobs::read(owned)
    }

    #[test]
    fn a_misspelt_fault_is_found() {
        assert!(read(&[("FAKECUPTI_SPLITT", "1")]).is_err());
        assert!(read(&[("FAKECUPTI_SPLIT", "yes")]).is_err());
        assert!(read(&[("FAKECUPTI_API", "25")]).is_err());
        assert!(read(&[("FAKECUPTI_KERNEL_LEN", "201")]).is_err());
        assert!(read(&[("SOMETHING_ELSE", "1")]).is_ok());
    }

    #[test]
    fn values_are_taken() {
        let knobs = read(&[
            ("FAKECUPTI_API", "22"),
            ("FAKECUPTI_ORDER", "shuffled:7"),
            ("FAKECUPTI_TAKEN", "nsys"),
            ("FAKECUPTI_STEP_NS", "-5"),
        ]);
        let knobs = knobs.unwrap();
        assert_eq!(knobs.level, Level(22));
        assert_eq!(knobs.order, Order::Shuffled(7));
        assert_eq!(knobs.taken.as_deref(), Some("nsys"));
        assert_eq!(knobs.step_ns, -5);
    }

    #[test]
    fn the_page_names_every_variable() {
        let page = include_str!("../README.md");
        let source = include_str!("knobs.rs");
        let source = source.split("mod tests").next().unwrap_or_default();
        let calls = ["text(\"", "parsed(\"", "number(\"", "switch(\""];
        let mut names = Vec::new();
        for call in calls {
            for rest in source.split(call).skip(1) {
                names.push(rest.split('"').next().unwrap_or_default());
            }
        }
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            assert!(page.contains(&format!("| `FAKECUPTI_{name}` |")), "{name}");
        }
    }
}
