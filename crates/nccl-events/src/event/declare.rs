//! Generates from the declarations of the kinds what covers all kinds: `Kind` and `Body`.

macro_rules! events {
    ($(
        $(#[$meta:meta])*
        $name:ident $(<$strings:ident>)? = $number:literal since $table:ident, $words:literal words { $($fields:tt)* }
    )*) => {
        $($crate::event::packed::packed! {
            $(#[$meta])*
            #[derive(Default)]
            $name $(<$strings>)?, $words words { $($fields)* }
        })*

        /// The kinds of events, numbered by NCCL's bits: `1 << kind` is the event type in the activation mask.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$meta])* $name = $number,)*
        }

        impl Kind {
            /// Number of kinds, including [`Kind::Unknown`].
            pub const COUNT: usize = Self::ALL.len();

            /// All kinds, in ascending order.
            pub const ALL: [Self; [$($number),*].len()] = [$(Self::$name),*];

            /// NCCL's name, without the prefix `ncclProfile`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The kind with this bit number in NCCL's activation mask; [`Kind::Unknown`] for all other bits.
            #[inline]
            pub const fn of_bit(bit: u32) -> Self {
                match bit {
                    $($number => Self::$name,)*
                    _ => Self::Unknown,
                }
            }

            /// The first table with this kind.
            pub const fn since(self) -> Table {
                match self {
                    $(Self::$name => Table::$table,)*
                }
            }

            /// Number of words in the payload of a start.
            pub const fn words(self) -> usize {
                match self {
                    $(Self::$name => $words,)*
                }
            }
        }

        /// The fields of an event, by kind. `S` is the type of strings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Body<S> {
            $($(#[$meta])* $name($name $(<$strings>)?),)*
        }

        impl<S: Copy> Body<S> {
            /// The kind of these fields.
            #[inline]
            pub const fn kind(&self) -> Kind {
                match self {
                    $(Self::$name(_) => Kind::$name,)*
                }
            }

            /// Passes on each field: its label, its style in listings, and its value.
            pub fn each(&self, mut field: impl FnMut(&'static str, Style, Value<S>)) {
                match *self {
                    $(Self::$name(fields) => fields.each(&mut field),)*
                }
            }
        }

        impl Start<Name<'_>> {
            /// Passes the words of this event's record to `sink`, and returns the sink's result.
            #[inline]
            pub fn encode(&self, sink: &mut impl StartSink) -> bool {
                match self.body {
                    $(Body::$name(fields) => {
                        let Some(fields) = $crate::event::declare::map_body!(fields, |name| Some(sink.name(name)) $(, $strings)?)
                        else {
                            return false;
                        };
                        let mut words = [0; $words];
                        self.put_head(&mut words);
                        let flag = fields.put(&mut words);
                        sink.put(Kind::$name, flag, words)
                    })*
                }
            }
        }

        impl<S: Copy> Start<S> {
            /// Reads the record of a start. `name` maps the number of a string to the string. `None` if the words do
            /// not fit the kind, or a string is unknown.
            #[inline]
            pub fn decode(
                kind: Kind,
                flag: bool,
                words: &[Word],
                name: impl Fn(u16) -> Option<S>,
            ) -> Option<Self> {
                let body = match kind {
                    $(Kind::$name => {
                        let fields = $name::take(flag, words)?;
                        Body::$name($crate::event::declare::map_body!(fields, &name $(, $strings)?)?)
                    })*
                };
                Self::with_head(words, body)
            }
        }
    };
}

macro_rules! map_body {
    ($fields:ident, $name:expr) => {
        Some($fields)
    };
    ($fields:ident, $name:expr, $strings:ident) => {
        $fields.map_names($name)
    };
}

pub(crate) use {events, map_body};
