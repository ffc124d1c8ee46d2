//! Values with names, and their JSON: in one line, in a fixed order, with times that keep their nanoseconds.

use std::fmt::{self, Display};

use crate::units;

/// A field's value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A string.
    Text(String),
    /// A number.
    Unsigned(u64),
    /// A number.
    Signed(i64),
    /// Yes or no.
    Flag(bool),
    /// A handle or an address; 0 is NULL.
    Address(u64),
    /// A number with a fraction.
    Float(f64),
    /// A time or duration in ns, in JSON in µs: a float would not hold the larger ones exactly.
    Time(u64),
    /// Several of one kind.
    Several(Vec<Self>),
    /// Several with names.
    Object(List),
    /// The same with names that are not known before.
    Attributes(Vec<(String, Self)>),
}

/// Fields in their order.
pub(super) type List = Vec<(&'static str, Value)>;

macro_rules! numbers {
    ($($number:ty => $variant:ident),*) => {
        $(impl From<$number> for Value {
            fn from(number: $number) -> Self {
                Self::$variant(number.into())
            }
        })*
    };
}

numbers! {
    u8 => Unsigned, u16 => Unsigned, u32 => Unsigned, u64 => Unsigned,
    i8 => Signed, i16 => Signed, i32 => Signed, i64 => Signed,
    f32 => Float, f64 => Float, bool => Flag, String => Text, &str => Text
}

/// A line of JSON.
pub(super) fn json(list: &List) -> String {
    object(list.iter().map(|(name, value)| (*name, value)))
}

fn object<'a>(fields: impl Iterator<Item = (&'a str, &'a Value)>) -> String {
    let fields = fields.map(|(name, value)| format!("{}:{}", quoted(name), value.json()));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Value {
    fn json(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Unsigned(number) => number.to_string(),
            Self::Signed(number) => number.to_string(),
            Self::Flag(is_set) => is_set.to_string(),
            Self::Address(0) => quoted("null"),
            Self::Address(address) => format!("\"{address:#x}\""),
            // As many digits as it takes to read the same again; JSON has no others.
            Self::Float(number) if number.is_finite() => format!("{number:?}"),
            Self::Float(number) => quoted(&number.to_string()),
            Self::Time(ns) => format!("{}.{:03}", ns / 1000, ns % 1000),
            Self::Several(values) => {
                let values: Vec<String> = values.iter().map(Self::json).collect();
                format!("[{}]", values.join(","))
            }
            Self::Object(list) => json(list),
            Self::Attributes(list) => object(list.iter().map(|(name, value)| (name.as_str(), value))),
        }
    }
}

/// For people.
impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Unsigned(number) => number.fmt(f),
            Self::Signed(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Flag(is_set) => f.write_str(if *is_set { "yes" } else { "no" }),
            Self::Address(0) => f.write_str("NULL"),
            Self::Address(address) => write!(f, "{address:#x}"),
            Self::Time(ns) => f.write_str(&units::time(*ns)),
            Self::Several(values) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                f.write_str(&values.join(","))
            }
            Self::Object(list) => f.write_str(pairs(list).trim_start()),
            Self::Attributes(list) => f.write_str(pairs(list).trim_start()),
        }
    }
}

/// Fields for people, each ` name=value`.
pub(super) fn pairs<N: Display>(fields: &[(N, Value)]) -> String {
    let pairs = fields.iter().map(|(name, value)| format!(" {name}={value}"));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive() {
        let several = [Value::Float(0.1), Value::Float(2e300), Value::Float(f64::NAN), "".into()];
        let list = vec![
            ("a", Value::from("x\"\\\n")),
            ("b", u64::MAX.into()),
            ("c", Value::Time(8_993_953_357_171_003)),
            ("d", Value::Address(0)),
            ("e", Value::Object(vec![("f", true.into())])),
            ("g", Value::Several(several.into())),
            ("h", Value::Object(List::new())),
        ];
        assert_eq!(
            json(&list),
            r#"{"a":"x\"\\\n","b":18446744073709551615,"c":8993953357171.003,"d":"null","e":{"f":true},"g":[0.1,2e300,"NaN",""],"h":{}}"#
        );
    }
}
