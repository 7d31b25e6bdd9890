// SPDX-License-Identifier: MIT OR Apache-2.0
//! A look as plain text, for `--once`.

use std::fmt::Write as _;

use super::look::Look;
use super::sheet::{self, Sheet, fit, short, time};

/// All of it.
pub(super) fn text(look: &Look) -> String {
    let mut text = format!(
        "router {}, up {}, looked at for {:.2} s; {} packets/s in; {} drops/s; {} of {} frames in use\n",
        look.router.pid,
        time(look.up),
        look.seconds,
        short(look.came),
        short(look.drop_rate()),
        look.frames.0.saturating_sub(look.frames.1),
        look.frames.0
    );
    for sheet in [sheet::cores, sheet::elements, sheet::ports, sheet::queues, sheet::drops, sheet::tables] {
        add(&mut text, &sheet(look));
    }
    if !look.decisions.is_empty() {
        text += "\nmoved tasks\n";
        look.decisions.iter().for_each(|line| text += &format!("  {line}\n"));
    }
    text
}

/// Adds a table, if there is something in it.
fn add(text: &mut String, sheet: &Sheet) {
    if sheet.rows.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{}", sheet.title);
    let layout = sheet.layout(usize::MAX);
    let mut line = |cell: &dyn Fn(usize) -> String| {
        let mut line = String::new();
        for (at, width) in &layout {
            let _ = write!(line, "  {}", fit(&cell(*at), *width, sheet.columns[*at].is_text));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    };
    line(&|at| sheet.columns[at].title.to_owned());
    sheet.rows.iter().for_each(|row| line(&|at| row[at].text.clone()));
}
