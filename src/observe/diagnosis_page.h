#pragma once

// The fixed parts of the page of a diagnosis.

namespace soli {

/// Its style: light and dark, as the reader's system asks.
extern const char* const kDiagnosisStyle;
/// Fills the page from the JSON of the element "data"; texts are set as text only.
extern const char* const kDiagnosisScript;
/// The elements that the script fills.
extern const char* const kDiagnosisBody;

}  // namespace soli
