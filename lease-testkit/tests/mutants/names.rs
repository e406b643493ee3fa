//! Names that are taken for one another.

use lease_core::LeaseName;

use super::broken::Broken;

/// The name that the broken store keeps for `name`.
pub(crate) fn key(broken: Broken, name: &LeaseName) -> LeaseName {
    let text = name.as_str();
    let kept = match broken {
        Broken::NamesTruncated => {
            text.char_indices().take_while(|(at, _)| *at < 190).map(|(_, c)| c).collect()
        }
        Broken::NamesFoldedInCase => text.to_lowercase(),
        Broken::NamesFoldedInAccent => text.replace(['é', 'è', 'ê'], "e").replace('â', "a"),
        Broken::NamesWithoutWide => text.replace(|c| c > '\u{ffff}', "\u{fffd}"),
        Broken::NamesExpanded => text.replace('ß', "ss").replace('æ', "ae"),
        Broken::QuotesCollapsed => text.replace("''", "'"),
        Broken::NamesNormalized => text.replace("e\u{301}", "\u{e9}"),
        Broken::NamesTrimmed => {
            text.trim_end_matches(['\u{200b}', '\u{ad}', '\u{feff}', '\u{200d}']).to_owned()
        }
        Broken::NamesCollapsed => text.split_whitespace().collect::<Vec<_>>().join(" "),
        _ => return name.clone(),
    };
    // A text that is no name any more is left as it was.
    LeaseName::new(&kept).unwrap_or_else(|_| name.clone())
}
