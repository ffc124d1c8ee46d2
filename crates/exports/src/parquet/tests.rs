//! Checks that the columns match docs/REFERENCE.md.

use std::collections::BTreeSet;
use std::path::Path;

use crate::parquet::columns;
use parquet::basic::{LogicalType, Type};
use parquet::record::RecordWriter;

/// Names and types, as the page lists them.
fn columns<R>(_of: fn(R)) -> Vec<[String; 2]>
where
    for<'s> &'s [R]: RecordWriter<R>,
{
    let none: &[R] = &[];
    let schema = none.schema().expect("a schema");
    let columns = schema.get_fields().iter().map(|column| {
        let column_type = match column.get_physical_type() {
            Type::BOOLEAN => "bool",
            Type::INT32 => "int32",
            Type::INT64 => "int64",
            Type::DOUBLE => "double",
            Type::BYTE_ARRAY => "text",
            other => panic!("{other} in {}", column.name()),
        };
        let is_text = column.get_basic_info().logical_type_ref() == Some(&LogicalType::String);
        assert_eq!(is_text, column_type == "text", "{}", column.name());
        let mark = if column.is_optional() { "?" } else { "" };
        [column.name().to_owned(), format!("{column_type}{mark}")]
    });
    columns.collect()
}

fn block<'p>(page: &'p str, name: &str) -> &'p str {
    let marks = [format!("<!-- parquet {name} -->\n"), format!("<!-- end parquet {name} -->")];
    let (_, rest) = page.split_once(&marks[0]).unwrap_or_else(|| panic!("no {}", marks[0]));
    rest.split_once(&marks[1]).expect("the end").0
}

/// The list of a table's columns: "`instance` int64, `communicator` int32".
fn documented(page: &str, table: &str) -> Vec<[String; 2]> {
    let text = block(page, table).replace('\n', " ");
    let columns = text.trim().split(", ").map(|column| column.split_once(' ').expect("a name and a type"));
    columns.map(|(name, of)| [name.trim_matches('`').to_owned(), of.to_owned()]).collect()
}

/// The columns that the page explains.
fn explained(page: &str) -> BTreeSet<String> {
    let cells = block(page, "columns").lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    cells.flat_map(|cell| cell.split(", ").map(|name| name.trim_matches('`').to_owned())).collect()
}

#[test]
fn the_reference_has_all_columns() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/REFERENCE.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let tables = [
        ("instances", columns(|_: columns::Instance<'_>| ())),
        ("ranks", columns(|_: columns::Rank<'_>| ())),
        ("operations", columns(|_: columns::Operation<'_>| ())),
        ("calls", columns(|_: columns::Call<'_>| ())),
        ("ranges", columns(|_: columns::Range<'_>| ())),
        ("transfers", columns(|_: columns::Transfer<'_>| ())),
        ("steps", columns(|_: columns::Step<'_>| ())),
        ("kernels", columns(|_: columns::Kernel<'_>| ())),
    ];
    let names = tables.iter().flat_map(|(_, columns)| columns).map(|[name, _]| name.clone());
    assert_eq!(names.collect::<BTreeSet<String>>(), explained(&page));
    for (table, columns) in tables {
        assert_eq!(columns, documented(&page, table), "{table}");
    }
}
