// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws it, at any size: what matters less goes first where there is no room.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use super::app::{App, Page};
use super::look::Look;
use super::sheet::{Sheet, fit, fullness, percent, short, time};

/// How things look, with colours or without (`NO_COLOR`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Colours(pub(super) bool);

impl Colours {
    /// What asks to be looked at.
    fn alarm(self, alarm: u8) -> Style {
        match (alarm, self.0) {
            (0, _) => Style::new(),
            (1, true) => Style::new().fg(Color::Yellow),
            (1, false) => Style::new().add_modifier(Modifier::BOLD),
            (_, true) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            (_, false) => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        }
    }

    fn head(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if self.0 { style.fg(Color::Cyan) } else { style }
    }

    fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }
}

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, colours: Colours) {
    let area = frame.area();
    if area.width == 0 || area.height == 0 {
        return;
    }
    let width = usize::from(area.width);
    let mut lines = head(app, width, colours);
    // The last line is for keys and the filter, if there is one to spare.
    let foot = usize::from(area.height > 3);
    let head = lines.len().min(usize::from(area.height));
    let room = usize::from(area.height).saturating_sub(head + foot);
    lines.truncate(head);
    lines.extend(body(app, width, room, colours));
    frame.render_widget(Paragraph::new(lines), Rect { height: area.height - foot as u16, ..area });
    if foot > 0 {
        let at = Rect { y: area.bottom() - 1, height: 1, ..area };
        frame.render_widget(Paragraph::new(footer(app, colours)), at);
    }
    if app.helps {
        help(frame, area, colours);
    }
}

/// The router, its cores, and the pages.
fn head<'a>(app: &App, width: usize, colours: Colours) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    if let Some(look) = app.look() {
        lines.push(summary(app, look, width, colours));
        lines.push(cores(look, width, colours));
    }
    let mut tabs = Vec::new();
    let names: usize = Page::ALL.iter().map(|page| page.title().len() + 4).sum();
    for (at, page) in Page::ALL.into_iter().enumerate() {
        let title = match names <= width || page == app.page {
            true => format!(" {} {} ", at + 1, page.title()),
            false => format!(" {} ", at + 1),
        };
        tabs.push(Span::styled(title, if page == app.page { colours.chosen() } else { colours.faint() }));
    }
    lines.push(Line::from(tabs));
    lines
}

/// As many of these as fit, the first ones first.
fn fitting<'a>(parts: Vec<(String, Style)>, width: usize) -> Line<'a> {
    let (mut spans, mut used) = (Vec::new(), 0);
    for (text, style) in parts {
        let gap = if used == 0 { 0 } else { 2 };
        let needed = gap + text.chars().count();
        if used + needed > width {
            break;
        }
        used += needed;
        spans.extend((gap > 0).then(|| Span::raw("  ")));
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

fn summary<'a>(app: &App, look: &Look, width: usize, colours: Colours) -> Line<'a> {
    let used = look.frames.0.saturating_sub(look.frames.1);
    let full = if look.frames.0 > 0 { used as f64 / look.frames.0 as f64 } else { 0.0 };
    let drops = look.drop_rate();
    let mut parts = vec![
        (format!("router {}", look.router.pid), colours.head()),
        (format!("{} packets/s", short(look.came)), Style::new()),
        (format!("{} drops/s", short(drops)), colours.alarm(u8::from(drops > 0.0))),
        (format!("up {}", time(look.up)), Style::new()),
    ];
    if app.holds {
        parts.insert(1, ("held".to_owned(), colours.chosen()));
    }
    if !app.message.is_empty() {
        parts.insert(1, (app.message.clone(), colours.alarm(2)));
    }
    parts.push((format!("frames {used}/{}", look.frames.0), colours.alarm(fullness(full))));
    if look.configurations > 1 {
        parts.push((format!("configuration {}", look.configurations), Style::new()));
    }
    fitting(parts, width)
}

/// How busy the cores are.
fn cores<'a>(look: &Look, width: usize, colours: Colours) -> Line<'a> {
    let mut parts = vec![("busy".to_owned(), colours.faint())];
    parts.extend(look.cores.iter().filter(|core| core.active || core.stalled).map(|core| {
        let alarm = if core.stalled { 2 } else { fullness(core.busy) };
        let state = if core.stalled { "stalled".to_owned() } else { percent(core.busy) };
        (format!("{}:{state}", core.worker), colours.alarm(alarm))
    }));
    fitting(parts, width)
}

/// The rows that fit.
fn body<'a>(app: &mut App, width: usize, room: usize, colours: Colours) -> Vec<Line<'a>> {
    let Some(look) = app.look() else {
        let message =
            if app.message.is_empty() { "waiting for the first look".into() } else { app.message.clone() };
        return vec![Line::from(fit(&message, width, true))].into_iter().take(room).collect();
    };
    let sheets = app.sheets();
    let several = sheets.len() > 1;
    let (column, reversed) = app.sorted();
    let mut rows: Vec<Line<'a>> = Vec::new();
    let mut title = None;
    if app.page == Page::Moves {
        let latest_first = look.decisions.iter().rev();
        rows.extend(latest_first.map(|line| Line::from(line.clone())));
        if rows.is_empty() {
            rows.push(Line::from("the balancer has moved nothing (run --adaptive)"));
        }
    }
    for sheet in sheets.iter().filter(|sheet| !several || !sheet.rows.is_empty()) {
        let layout = sheet.layout(width);
        let line = head_line(sheet, &layout, column, reversed, colours);
        if several {
            rows.push(line);
        } else {
            title = Some(line);
        }
        rows.extend(sheet.rows.iter().map(|row| {
            let cell = |(at, width): &(usize, usize)| {
                let text = fit(&row[*at].text, *width, sheet.columns[*at].is_text) + "  ";
                Span::styled(text, colours.alarm(row[*at].alarm))
            };
            Line::from(layout.iter().map(cell).collect::<Vec<_>>())
        }));
    }
    if rows.is_empty() {
        let why = if app.filter.is_empty() { "nothing here" } else { "nothing that the filter lets through" };
        rows.push(Line::from(why));
    }
    let room = room.saturating_sub(usize::from(title.is_some()));
    app.shown = (room, rows.len());
    app.first = app.first.min(rows.len().saturating_sub(room));
    title.into_iter().chain(rows.into_iter().skip(app.first).take(room)).collect()
}

fn head_line<'a>(
    sheet: &Sheet,
    layout: &[(usize, usize)],
    column: Option<usize>,
    reversed: bool,
    colours: Colours,
) -> Line<'a> {
    let cell = |(at, width): &(usize, usize)| {
        let style = if column == Some(*at) {
            colours
                .head()
                .add_modifier(Modifier::UNDERLINED | if reversed { Modifier::ITALIC } else { Modifier::BOLD })
        } else {
            colours.head()
        };
        [
            Span::styled(fit(sheet.columns[*at].title, *width, sheet.columns[*at].is_text), style),
            Span::raw("  "),
        ]
    };
    Line::from(layout.iter().flat_map(cell).collect::<Vec<_>>())
}

/// The filter, or keys.
fn footer<'a>(app: &App, colours: Colours) -> Line<'a> {
    if app.is_typing {
        let filter = Span::styled(format!("/{}_", app.filter), colours.head());
        return Line::from(vec![filter, Span::styled("  Enter keeps, Esc clears", colours.faint())]);
    }
    let mut spans = Vec::new();
    if !app.filter.is_empty() {
        spans.push(Span::styled(format!("/{}  ", app.filter), colours.head()));
    }
    let (shown, all) = app.shown;
    if all > shown && shown > 0 {
        let last = (app.first + shown).min(all);
        spans.push(Span::raw(format!("{}-{last} of {all}  ", app.first + 1)));
    }
    spans.push(Span::styled("q ends  ? helps  Tab pages  s sorts  / filters  p holds", colours.faint()));
    Line::from(spans)
}

const HELP: &[&str] = &[
    "Tab 1-6    pages",
    "s S        sort by the next column, the last",
    "r          the other way round",
    "/          only names or classes with this text",
    "Esc        without filter",
    "p          hold what is seen, or go on",
    "+ -        look more often, more rarely",
    "arrows     scroll; PgUp PgDn Home End",
    "q          end",
    "",
    "cycles/p: cycles for each packet, of the",
    "batches that are timed; busy: share of a",
    "core by these; task: of its task with all",
    "that follows; batch: packets in a batch",
];

fn help(frame: &mut Frame<'_>, area: Rect, colours: Colours) {
    let wanted = HELP.iter().map(|line| line.len() + 2).max().unwrap_or(0);
    let width = area.width.min(wanted as u16);
    let height = area.height.min(HELP.len() as u16 + 2);
    let at =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, at);
    let mut lines = vec![Line::styled(fit(" keys", usize::from(width), true), colours.chosen())];
    lines.extend(HELP.iter().map(|line| Line::raw(format!(" {line}"))));
    lines.truncate(usize::from(height).saturating_sub(1));
    lines.push(Line::styled(fit(" any key goes back", usize::from(width), true), colours.chosen()));
    frame.render_widget(Paragraph::new(lines), at);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    use super::super::app::tests::press;
    use super::super::look::tests::example;
    use super::*;

    /// The lines of a screen of this size.
    fn drawn(app: &mut App, (width, height): (u16, u16)) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, app, Colours(true))).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    fn app() -> App {
        let mut app = App::new("");
        app.take(example());
        app
    }

    #[test]
    fn an_ordinary_terminal() {
        let lines = drawn(&mut app(), (80, 24));
        let want = [
            "router 4711  3.00M packets/s  10 drops/s  up 7s  frames 200/1000",
            "busy  0:50.0%",
            " 1 elements  2 cores  3 ports  4 drops  5 tables  6 moves",
            "element  class           packets/s  cycles/p  batch  busy   task  drops/s  held",
            "src      InfiniteSource      3.00M        10     20  1.5%  40.0%        7     0",
            "q        Queue                 500         -     10     -      -       10     0",
        ];
        assert_eq!(lines[..6], want, "{}", lines.join("\n"));
        assert_eq!(lines[23], "q ends  ? helps  Tab pages  s sorts  / filters  p holds");
    }

    #[test]
    fn a_small_one() {
        let lines = drawn(&mut app(), (40, 12));
        let want = [
            "router 4711  3.00M packets/s  10 drops/s",
            "busy  0:50.0%",
            " 1 elements  2  3  4  5  6",
            "element  packets/s  cycles/p  drops/s",
            "src          3.00M        10        7",
        ];
        assert_eq!(lines[..5], want, "{}", lines.join("\n"));
    }

    #[test]
    fn a_wide_one() {
        let lines = drawn(&mut app(), (200, 60));
        assert!(lines[0].ends_with("frames 200/1000  configuration 2"), "{}", lines[0]);
        assert!(lines[3].ends_with("held  packets") && lines[4].ends_with("3000100"), "{}", lines.join("\n"));
    }

    #[test]
    fn all_pages_at_all_sizes() {
        for size in
            [(80, 24), (40, 12), (200, 60), (20, 4), (10, 3), (3, 2), (1, 1), (0, 0), (300, 1), (5, 100)]
        {
            let mut app = app();
            for page in '1'..='6' {
                press(&mut app, &[KeyCode::Char(page), KeyCode::Char('s')]);
                drawn(&mut app, size);
                press(&mut app, &[KeyCode::Char('?')]);
                drawn(&mut app, size);
                press(&mut app, &[KeyCode::Enter, KeyCode::Char('/'), KeyCode::Char('q')]);
                drawn(&mut app, size);
                press(&mut app, &[KeyCode::Esc]);
            }
            drawn(&mut App::new(""), size);
        }
    }

    #[test]
    fn pages_have_what_they_say() {
        let has = |keys: &[KeyCode], wanted: &[&str]| {
            let mut app = app();
            press(&mut app, keys);
            let text = drawn(&mut app, (80, 24)).join("\n");
            wanted.iter().for_each(|want| assert!(text.contains(want), "{want} in\n{text}"));
        };
        has(&[KeyCode::Char('2')], &["worker", "50.0%", "75.0%"]);
        has(&[KeyCode::Char('3')], &["FromDevice", "Queue", "highest", "25"]);
        has(&[KeyCode::Char('4')], &["queue-full", "16"]);
        has(&[KeyCode::Char('5')], &["LookupIPRoute", "2.05k"]);
        has(&[KeyCode::Char('6')], &["moved src 0->1"]);
        has(&[KeyCode::Char('?')], &["PgUp", "any key goes back"]);
        has(&[KeyCode::Char('/'), KeyCode::Char('y')], &["/y_", "nothing that the filter lets through"]);
        has(&[KeyCode::Char('p')], &["held"]);
    }

    #[test]
    fn long_lists_scroll() {
        let mut look = example();
        let one = look.elements[0].clone();
        look.elements =
            (0..50).map(|n| super::super::look::Element { name: format!("e{n}"), ..one.clone() }).collect();
        let mut app = App::new("");
        app.take(look);
        let lines = drawn(&mut app, (80, 24));
        assert!(lines[4].starts_with("e0 ") && lines[23].starts_with("1-19 of 50"), "{}", lines.join("\n"));
        press(&mut app, &[KeyCode::PageDown]);
        assert!(drawn(&mut app, (80, 24))[4].starts_with("e19 "));
        press(&mut app, &[KeyCode::End]);
        let lines = drawn(&mut app, (80, 24));
        assert!(
            lines[22].starts_with("e49 ") && lines[23].starts_with("32-50 of 50"),
            "{}",
            lines.join("\n")
        );
    }

    #[test]
    fn without_colours_there_are_none() {
        let mut app = app();
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        for page in '1'..='6' {
            press(&mut app, &[KeyCode::Char(page)]);
            terminal.draw(|frame| draw(frame, &mut app, Colours(false))).unwrap();
            let cells = terminal.backend().buffer().content();
            assert!(cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
        }
    }
}
