/** uPlot, which the page has beside its own script. */
declare const uPlot: new (options: object, data: (number | null)[][], element: HTMLElement) => { destroy(): void };
