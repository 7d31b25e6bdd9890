// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of a long list, as the text that they are sent as. A tree of values would need ten times the memory.

use serde_json::Value;

use crate::answer::Answer;

/// Rows of JSON.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    text: String,
    count: usize,
}

impl Rows {
    /// Adds a row.
    pub(crate) fn push(&mut self, row: &str) {
        if self.count > 0 {
            self.text.push(',');
        }
        self.text += row;
        self.count += 1;
    }

    /// Adds rows.
    pub(crate) fn extend(&mut self, rows: &[String]) {
        rows.iter().for_each(|row| self.push(row));
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// An object with one more field that has these rows.
    pub(crate) fn answer(self, object: Value, field: &str) -> Answer {
        let mut text = object.to_string();
        // Its brace comes last.
        text.pop();
        let comma = if text.len() > 1 { "," } else { "" };
        Answer::Text("application/json", format!("{text}{comma}\"{field}\":[{}]}}", self.text))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_become_a_field() {
        let text = |object: Value, rows: &[&str]| {
            let mut all = Rows::default();
            rows.iter().for_each(|row| all.push(row));
            let Answer::Text(_, text) = all.answer(object, "rows") else { panic!("another answer") };
            serde_json::from_str::<Value>(&text).unwrap()
        };
        assert_eq!(text(json!({ "next": null }), &["{}", "1"]), json!({ "next": null, "rows": [{}, 1] }));
        assert_eq!(text(json!({}), &[]), json!({ "rows": [] }));
    }
}
