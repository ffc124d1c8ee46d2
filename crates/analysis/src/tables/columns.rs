//! A table whose columns lie in memory one after the other: what looks at two of twelve reads two.

/// Declares a table, its row, and how to get from one to the other.
macro_rules! columns {
    ($(#[$doc:meta])* $table:ident of $row:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $row { $($(#[$field_doc])* pub $field: $type,)* }

        #[doc = concat!("The columns of [`", stringify!($row), "`].")]
        #[derive(Clone, Debug, Default)]
        pub struct $table { $($(#[$field_doc])* pub $field: Vec<$type>,)* }

        #[expect(clippy::allow_attributes, reason = "not every table uses every method")]
        #[allow(dead_code, reason = "not every table uses every method")]
        impl $table {
            /// Number of rows.
            #[must_use]
            pub fn len(&self) -> usize {
                let lengths = [$(self.$field.len()),*];
                lengths.first().copied().unwrap_or(0)
            }

            /// Whether there are no rows.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Adds a row.
            pub(crate) fn push(&mut self, row: $row) {
                $(self.$field.push(row.$field);)*
            }

            /// A row.
            ///
            /// # Panics
            ///
            /// Where there are not so many.
            #[must_use]
            pub fn row(&self, at: usize) -> $row {
                $row { $($field: self.$field[at],)* }
            }

            /// All rows.
            pub fn rows(&self) -> impl Iterator<Item = $row> + '_ {
                (0..self.len()).map(|at| self.row(at))
            }

            /// One table of many: memory is that of all of them and of the largest once more.
            pub(crate) fn concat(parts: Vec<Self>) -> Self {
                let rows = parts.iter().map(Self::len).sum();
                let mut all = Self { $($field: Vec::with_capacity(rows),)* };
                for part in parts {
                    $(all.$field.extend_from_slice(&part.$field);)*
                }
                all
            }
        }
    };
}

pub(crate) use columns;
