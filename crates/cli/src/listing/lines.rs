//! JSON objects in one line, with their fields in a fixed order and times that keep their nanoseconds.

use std::fmt::Write as _;

use super::fields::{List, Value};

/// An object that is being written.
#[derive(Debug)]
pub(crate) struct Object(String);

impl Object {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self("{".to_owned())
    }

    /// The line.
    pub(crate) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }

    /// A string.
    pub(crate) fn text(self, name: &str, text: &str) -> Self {
        // serde_json knows how to escape; a string always has a JSON form.
        let quoted = serde_json::Value::from(text).to_string();
        self.raw(name, &quoted)
    }

    /// A number.
    pub(crate) fn number(self, name: &str, number: impl Into<i128>) -> Self {
        self.raw(name, &number.into().to_string())
    }

    /// Yes or no.
    pub(crate) fn flag(self, name: &str, is_set: bool) -> Self {
        self.raw(name, if is_set { "true" } else { "false" })
    }

    /// A handle or an address.
    pub(crate) fn address(self, name: &str, address: u64) -> Self {
        if address == 0 {
            self.text(name, "null")
        } else {
            self.text(name, &format!("{address:#x}"))
        }
    }

    /// A time or duration in µs: a float would not hold the larger ones exactly.
    pub(crate) fn microseconds(self, name: &str, ns: u64) -> Self {
        self.raw(name, &format!("{}.{:03}", ns / 1000, ns % 1000))
    }

    /// An object in the object.
    pub(crate) fn object(self, name: &str, object: Self) -> Self {
        let text = object.end();
        self.raw(name, &text)
    }

    /// Fields.
    pub(crate) fn list(self, list: &List) -> Self {
        list.iter()
            .fold(self, |object, (name, value)| object.value(name, value))
    }

    /// A field.
    pub(crate) fn value(self, name: &str, value: &Value) -> Self {
        match value {
            Value::Text(text) => self.text(name, text),
            Value::Unsigned(number) => self.number(name, *number),
            Value::Signed(number) => self.number(name, *number),
            Value::Float(number) => self.float(name, *number),
            Value::Flag(is_set) => self.flag(name, *is_set),
            Value::Address(address) => self.address(name, *address),
            Value::Several(values) => {
                let values: Vec<String> = values.iter().map(Self::alone).collect();
                self.raw(name, &format!("[{}]", values.join(",")))
            }
            Value::Object(list) => self.object(name, Self::new().list(list)),
        }
    }

    /// A value without a name.
    fn alone(value: &Value) -> String {
        let named = Self::new().value("", value).0;
        named.strip_prefix("{\"\":").unwrap_or_default().to_owned()
    }

    /// A number with a fraction, with as many digits as it takes to read the same again; JSON has no others.
    fn float(self, name: &str, number: f64) -> Self {
        if number.is_finite() {
            self.raw(name, &format!("{number:?}"))
        } else {
            self.text(name, &number.to_string())
        }
    }

    fn raw(mut self, name: &str, value: &str) -> Self {
        let comma = if self.0.len() > 1 { "," } else { "" };
        let _infallible = write!(self.0, "{comma}\"{name}\":{value}");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive() {
        let object = Object::new()
            .text("a", "x\"\\\n")
            .number("b", u64::MAX)
            .microseconds("c", 8_993_953_357_171_003)
            .address("d", 0)
            .object("e", Object::new().flag("f", true))
            .value(
                "g",
                &Value::Several(vec![
                    Value::Float(0.1),
                    Value::Float(2e300),
                    Value::Float(f64::NAN),
                    Value::Text(String::new()),
                ]),
            );
        assert_eq!(
            object.end(),
            r#"{"a":"x\"\\\n","b":18446744073709551615,"c":8993953357171.003,"d":"null","e":{"f":true},"g":[0.1,2e300,"NaN",""]}"#
        );
    }
}
